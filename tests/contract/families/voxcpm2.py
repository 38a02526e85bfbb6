import tempfile
from functools import cache
from pathlib import Path

from rhapsode.testing.subject import Subject
from rhapsode.types import Clip, Voice
from tiny.voxcpm2 import SAMPLE_RATE, Tiny, reference_audio, write

TEXTS = ("Hello there.", "One two three four.", "Good morning to you all.", "Yes, it is.")
REFERENCE = Clip(reference_audio(6_000)[None], SAMPLE_RATE)
OPTIONS = {"cloning": "both", "inference_timesteps": 2}  # one move: as good as nine to a rule, and much faster


@cache
def checkpoint() -> str:
    """A tiny checkpoint that sometimes decides to end, and whose patches are a few samples long."""
    folder = Path(tempfile.mkdtemp(prefix="rhapsode-tiny-"))
    write(folder, Tiny(stop_shift=1.2, decoder_rates=(3, 2), layers=(1, 1, 1), seed=7))
    return str(folder)


# The mode with everything in it; `unit/voxcpm2/test_engine.py` holds each of the others to the rules it could break.
WISHES = {"voice": Voice.cloned(REFERENCE, "ref"), "options": OPTIONS}
SUBJECTS = (Subject("voxcpm2", TEXTS, "both", "float64", 1e-5, checkpoint, WISHES),)
