import tempfile
from functools import cache
from pathlib import Path

from rhapsode.nn.kernels.cpu.library import library
from rhapsode.testing.subject import DEVICE, Subject
from rhapsode.types import Clip, Voice
from tiny.qwen3_tts import Tiny, reference_audio, write

TEXTS = ("Hello there.", "One two three four.", "Good morning to you all.", "Yes, it is.")
DTYPE = "float32" if DEVICE == "cpu" and library() is not None else "float64"
"""The C kernels compute a row as if it were alone; elsewhere rounding depends on the batch."""


@cache
def checkpoint(kind: str) -> str:
    """A tiny checkpoint that sometimes decides to end."""
    folder = Path(tempfile.mkdtemp(prefix="rhapsode-tiny-"))
    write(folder, Tiny(kind=kind, eos_gain=1.4), shards=2)
    return str(folder)


def subject(variant: str, kind: str, **wishes):
    # One token of text per frame, so that appended text can be compared with the whole.
    wishes = {"options": {"non_streaming_mode": False}, **wishes}
    return Subject("qwen3-tts", TEXTS, variant, DTYPE, 1e-5, lambda: checkpoint(kind), wishes)


REFERENCE = Clip(reference_audio(12_345)[None], 24_000)

SUBJECTS = (
    subject("custom", "custom_voice", voice=Voice(name="aiden"), language="English"),
    subject("clone", "base", voice=Voice.cloned(REFERENCE, "the ref")),
)
