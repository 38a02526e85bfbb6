import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from rhapsode.testing.subject import Subject
from tiny.chatterbox import ENDING, write

TEXTS = ("Hello there.", "One two.", "Good day to you.", "Yes, it is.")


@cache
def checkpoint(variant: str) -> str:
    return str(write(Path(tempfile.mkdtemp(prefix="rhapsode-tiny-")), ENDING[variant]))


def subject(variant: str, name: str = "", **options: Any) -> Subject:
    return Subject(
        "chatterbox",
        TEXTS,
        name or variant,
        "float64",
        1e-5,
        lambda: checkpoint(variant),
        {"options": options},
        segments=True,
    )


SUBJECTS = (
    subject("original", "guided", cfg_weight=0.7, exaggeration=0.8),
    subject("turbo"),
    subject("nano"),
)
