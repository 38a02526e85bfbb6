import tempfile
from functools import cache
from pathlib import Path

from rhapsode.testing.subject import Subject
from rhapsode.types import Clip, Voice
from tiny.voxtral_tts import SAMPLE_RATE, Tiny, reference_audio, write

TEXTS = ("Hello there.", "One two three four.", "Good morning to you all.", "Yes, it is.")
REFERENCE = Clip(reference_audio(700)[None], SAMPLE_RATE)


@cache
def checkpoint(seed: int) -> str:
    """A tiny checkpoint that sometimes decides to end, and whose frames are a few samples long."""
    folder = Path(tempfile.mkdtemp(prefix="rhapsode-tiny-"))
    write(folder, Tiny(end_gain=1.5, encoder=True, steps=1, seed=seed))
    return str(folder)


def subject(variant: str, seed: int, voice: Voice) -> Subject:
    return Subject("voxtral-tts", TEXTS, variant, "float64", 1e-6, lambda: checkpoint(seed), {"voice": voice})


SUBJECTS = (subject("preset", 20, Voice(name="fr_male")), subject("clone", 7, Voice.cloned(REFERENCE)))
