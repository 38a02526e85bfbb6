import tempfile
from functools import cache
from pathlib import Path

from rhapsode.testing.subject import Subject
from tiny.kokoro import write

TEXTS = ("Hello there.", "One two three, four.", "Good morning.", "Is it you, yes, or is it not?")


@cache
def checkpoint() -> str:
    return str(write(Path(tempfile.mkdtemp(prefix="rhapsode-tiny-"))))


SUBJECTS = (Subject("kokoro", TEXTS, dtype="float64", tolerance=1e-5, model=checkpoint),)
"""In float64: rounding may depend on the batch, and turns phases near pi over."""
