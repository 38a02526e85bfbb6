"""Text appended to running requests, until their talker takes it."""

from __future__ import annotations

from rhapsode.engine.stage import Text


class AppendedTexts:
    """Texts by request, in the order they came."""

    def __init__(self) -> None:
        self._texts: dict[str, list[Text]] = {}

    def add(self, text: Text) -> None:
        self._texts.setdefault(text.job.id, []).append(text)

    def waiting(self) -> list[str]:
        """The requests that have text."""
        return list(self._texts)

    def take(self, job_id: str) -> list[Text]:
        return self._texts.pop(job_id, [])

    def forget(self, job_id: str) -> None:
        self._texts.pop(job_id, None)
