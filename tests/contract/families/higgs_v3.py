import tempfile
from functools import cache
from pathlib import Path

from rhapsode.testing.subject import Subject
from rhapsode.types import Clip, Voice
from tiny.higgs import SAMPLE_RATE, Tiny, reference_audio, write

TEXTS = ("Hi there.", "One two three. Four five.", "Good morning to you.", "Yes, it is.")
REFERENCE = Clip(reference_audio(5000), SAMPLE_RATE)


@cache
def checkpoint() -> str:
    """A tiny checkpoint that sometimes decides to end."""
    return str(write(Path(tempfile.mkdtemp(prefix="rhapsode-tiny-")), Tiny(generation=3, end_gain=1.3, seed=2)))


# Sentence by sentence, so that appended text can be compared with the whole.
WISHES = {"seed": 1, "voice": Voice.cloned(REFERENCE, "the ref"), "options": {"chunk": "sentence"}}
SUBJECTS = (Subject("higgs-v3", TEXTS, "clone", "float64", 1e-5, checkpoint, WISHES, 2048, segments=True),)
