import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from rhapsode.testing.subject import Subject
from tiny.chatterbox import NANO, ORIGINAL, TURBO, TinyT3, write

TEXTS = ("Hello there.", "One two.", "Good day to you.", "Yes, it is.")
RECIPES = {"original": ORIGINAL, "turbo": TURBO, "nano": NANO}


@cache
def checkpoint(variant: str) -> str:
    """A tiny checkpoint that sometimes decides to end."""
    tiny: TinyT3 = replace(RECIPES[variant], end_gain=2.0)
    return str(write(Path(tempfile.mkdtemp(prefix="rhapsode-tiny-")), tiny))


def subject(variant: str, name: str = "", **options: Any) -> Subject:
    return Subject(
        "chatterbox",
        TEXTS,
        name or variant,
        "float64",
        1e-5,
        lambda: checkpoint(variant),
        {"options": options, "max_frames": 24},
        segments=True,
    )


SUBJECTS = (
    subject("original", "guided", cfg_weight=0.7, exaggeration=0.8),
    subject("turbo"),
    subject("nano"),
)
