import tempfile
from functools import cache
from pathlib import Path

from rhapsode.testing.subject import Subject
from tiny.kokoro import write

TEXTS = ("Hello there.", "One two three. Four.", "Good morning.", "Is it you? Yes. It is.")


@cache
def checkpoint() -> str:
    return str(write(Path(tempfile.mkdtemp(prefix="rhapsode-tiny-"))))


SUBJECTS = (Subject("kokoro", TEXTS, model=checkpoint),)
