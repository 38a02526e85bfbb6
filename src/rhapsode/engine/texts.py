"""Text appended to running requests, until their talker takes it."""

from __future__ import annotations

from collections.abc import Iterator

from rhapsode.engine.stage import Text
from rhapsode.models.base import TextFeed


class AppendedTexts:
    """Texts by request, in the order they came."""

    def __init__(self) -> None:
        self._texts: dict[str, list[Text]] = {}

    def add(self, text: Text) -> None:
        self._texts.setdefault(text.job.id, []).append(text)

    def waiting(self) -> list[str]:
        """The requests that have text."""
        return list(self._texts)

    def tokens(self, job_id: str, feed: TextFeed) -> Iterator[tuple[list[int], bool]]:
        """Takes the texts of a request; yields the tokens that the current prompt gets, and whether they are the last.

        Once the feed takes no more, text is for the next prompt.
        """
        for text in self._texts.pop(job_id, []):
            is_for_next = feed.steps() is None
            tokens = [*feed.push(text.text), *(feed.close() if text.final else ())]
            if not is_for_next:
                yield tokens, text.final

    def forget(self, job_id: str) -> None:
        self._texts.pop(job_id, None)
