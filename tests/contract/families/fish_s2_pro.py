import tempfile
from functools import cache
from pathlib import Path

from contract.subject import Subject
from rhapsode.types import Clip, Reference, Voice
from tiny.fish_s2_pro import SAMPLE_RATE, Tiny, reference_audio, write

TEXTS = ("Hello there.", "One two three four.", "Good morning to you all.", "Yes, it is.")
DIALOGUE = (
    "<|speaker:0|>Hello.",
    "<|speaker:0|>One two. <|speaker:1|>Three four.",
    "<|speaker:1|>Good morning to you. <|speaker:0|>And to you. <|speaker:1|>Indeed.",
    "<|speaker:0|>Yes, it is.",
)
VOICE = Voice(
    references=tuple(
        Reference(Clip(reference_audio(200 + 100 * i, i)[None], SAMPLE_RATE), f"the ref {i}") for i in range(2)
    )
)


@cache
def checkpoint() -> str:
    """A tiny checkpoint that sometimes decides to end."""
    folder = Path(tempfile.mkdtemp(prefix="rhapsode-tiny-"))
    write(folder, Tiny(end_gain=1.3, seed=1))
    return str(folder)


def subject(variant: str, texts: tuple[str, ...], **wishes):
    return Subject("fish-s2-pro", texts, variant, "float64", 1e-5, checkpoint, wishes, max_positions=4096)


SUBJECTS = (
    subject("plain", TEXTS),
    subject("dialogue", DIALOGUE, voice=VOICE, options={"chunk_length": 30}),  # several batches of turns
)
