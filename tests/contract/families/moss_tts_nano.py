import tempfile
from functools import cache
from pathlib import Path

from rhapsode.testing.subject import Subject
from rhapsode.types import Clip, Voice
from tiny.moss_tts_nano import SAMPLE_RATE, Tiny, reference_audio, write

TEXTS = ("Hello there.", "One two three four.", "Good morning to you all.", "Yes, it is.")
REFERENCE = Clip(reference_audio(440), SAMPLE_RATE)  # its last frame is none that ends the speech


@cache
def checkpoint() -> str:
    """A tiny checkpoint that sometimes decides to end."""
    folder = Path(tempfile.mkdtemp(prefix="rhapsode-tiny-"))
    write(folder, Tiny())
    return str(folder)


# The mode with everything in it; `unit/moss_tts_nano/test_engine.py` holds the others to the rules they could break.
WISHES = {"voice": Voice.cloned(REFERENCE, "the ref")}
SUBJECTS = (Subject("moss-tts-nano", TEXTS, "continuation", "float64", 1e-5, checkpoint, WISHES),)
