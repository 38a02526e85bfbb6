"""One result of a verification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "note", "warning", "failed"]
MOST_LISTED = 8


@dataclass(frozen=True)
class CheckResult:
    """What one check found. A note is no problem, a warning may be one, a failure is one."""

    subject: str
    verdict: Verdict
    detail: str
    more: tuple[str, ...] = ()
    """Further lines, one per problem."""


def listed(names: list[str], most: int = MOST_LISTED) -> str:
    """Returns the first names, and how many more there are."""
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{rest}"
