import tempfile
from functools import cache
from pathlib import Path

from contract.subject import Subject
from rhapsode.types import Clip, Voice
from tiny.voxcpm2 import SAMPLE_RATE, Tiny, reference_audio, write

TEXTS = ("Hello there.", "One two three four.", "Good morning to you all.", "Yes, it is.")
REFERENCE = Clip(reference_audio(6_000)[None], SAMPLE_RATE)
OPTIONS = {"inference_timesteps": 2}  # one move: as good as nine to a rule, and much faster


@cache
def checkpoint() -> str:
    """A tiny checkpoint that sometimes decides to end, and whose patches are a few samples long."""
    folder = Path(tempfile.mkdtemp(prefix="rhapsode-tiny-"))
    write(folder, Tiny(stop_shift=1.2, decoder_rates=(3, 2), layers=(1, 1, 1), seed=7))
    return str(folder)


def subject(variant: str, **wishes):
    options = OPTIONS | wishes.pop("options", {})
    return Subject("voxcpm2", TEXTS, variant, "float64", 1e-5, checkpoint, {"options": options, **wishes})


SUBJECTS = (
    subject("design", voice=Voice(description="old")),
    subject("both", voice=Voice(reference=REFERENCE, reference_text="ref"), options={"cloning": "both"}),
)
