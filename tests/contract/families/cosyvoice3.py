import tempfile
from functools import cache
from pathlib import Path

from contract.subject import Subject
from rhapsode.types import Clip, Reference, Voice
from tiny.cosyvoice3 import SAMPLE_RATE, TinyCosyVoice, reference_audio, reference_tokens, speaker_embedding, write

TEXTS = ("Hello there.", "One two three four.", "Good morning to you all. Yes it is.", "Yes, it is the voice.")
CLONED = Voice(
    references=(Reference(Clip(reference_audio(20_000)[None], SAMPLE_RATE), "the ref"),),
    embedding=tuple(speaker_embedding(1).tolist()),
)


@cache
def checkpoint() -> str:
    """A tiny checkpoint that sometimes decides to end."""
    return str(write(Path(tempfile.mkdtemp(prefix="rhapsode-tiny-")), TinyCosyVoice(end_gain=2.0)))


def subject(variant: str, voice: Voice, **options) -> Subject:
    wishes = {"voice": voice, "options": {"enforce_min_length": False, **options}}
    return Subject("cosyvoice3", TEXTS, variant, "float64", 1e-5, checkpoint, wishes)


SUBJECTS = (
    # In turns, so that appended text can be compared with the whole.
    subject("turns", Voice(name="bob"), interleave=True),
    subject("clone", CLONED, reference_tokens=reference_tokens(20).tolist()),
)
