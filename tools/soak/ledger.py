"""Counts what clients did and how it ended, and keeps what should not have happened."""

from collections import Counter

MOST_KEPT = 50


class Violation(Exception):
    """The server did something it must never do."""


class Ledger:
    def __init__(self) -> None:
        self.endings: Counter[tuple[str, str]] = Counter()
        self.violations: list[str] = []
        self.violation_count = 0

    def count(self, behaviour: str, ending: str) -> None:
        self.endings[behaviour, ending] += 1

    def violate(self, what: str) -> None:
        """Records a violation; only the first ones are kept in full."""
        self.violation_count += 1
        if len(self.violations) < MOST_KEPT:
            self.violations.append(what[:500])

    def table(self) -> dict[str, dict[str, int]]:
        """Returns the endings of each behaviour with their counts."""
        found: dict[str, dict[str, int]] = {}
        for (behaviour, ending), count in sorted(self.endings.items()):
            found.setdefault(behaviour, {})[ending] = count
        return found
