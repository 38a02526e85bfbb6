import tempfile
from functools import cache
from pathlib import Path

from rhapsode.testing.subject import Subject
from rhapsode.types import Clip, Reference, Voice
from tiny.fish_s2_pro import SAMPLE_RATE, Tiny, reference_audio, write

TEXTS = (
    "Hello there.",
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


# Every turn is a batch of its own, so that text which is appended sentence by sentence can be compared with the whole.
WISHES = {"voice": VOICE, "options": {"chunk_length": 30}}
SUBJECTS = (Subject("fish-s2-pro", TEXTS, "dialogue", "float64", 1e-5, checkpoint, WISHES, 4096, segments=True),)
