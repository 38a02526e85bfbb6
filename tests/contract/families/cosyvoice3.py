import tempfile
from functools import cache
from pathlib import Path

from contract.subject import Subject
from rhapsode.types import Clip, Reference, Voice
from tiny.cosyvoice3 import SAMPLE_RATE, TinyCosyVoice, reference_audio, reference_tokens, speaker_embedding, write

TEXTS = ("Hello there.", "One two three.", "Good morning to you all.", "Yes, it is.")
END_GAIN = 3.0
CLONED = Voice(
    references=(Reference(Clip(reference_audio(20_000)[None], SAMPLE_RATE), "the ref"),),
    embedding=tuple(speaker_embedding(1).tolist()),
)


@cache
def checkpoint() -> str:
    """A tiny checkpoint that sometimes decides to end."""
    return str(write(Path(tempfile.mkdtemp(prefix="rhapsode-tiny-")), TinyCosyVoice(end_gain=END_GAIN)))


def subject(variant: str, voice: Voice, **options) -> Subject:
    return Subject("cosyvoice3", TEXTS, variant, "float64", 1e-5, checkpoint, {"voice": voice, "options": options})


SUBJECTS = (
    # In turns, so that appended text can be compared with the whole.
    subject("turns", Voice(name="bob"), interleave=True),
    subject("clone", CLONED, reference_tokens=reference_tokens(20).tolist()),
)
