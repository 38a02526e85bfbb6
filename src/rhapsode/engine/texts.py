"""Text appended to running requests, kept until their talker takes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rhapsode.device.memory import SlotMemory
from rhapsode.engine.row import FrameRow
from rhapsode.engine.stage import Text
from rhapsode.models.base import Burst, Talker, TextFeed, traits_of


class AppendedTexts:
    """The appended texts of each request, in the order they came."""

    def __init__(self, worker: Talker | Burst, memory: SlotMemory) -> None:
        self._extend, self._memory = traits_of(worker).extend, memory
        self._texts: dict[str, list[Text]] = {}

    def add(self, text: Text) -> None:
        self._texts.setdefault(text.job.id, []).append(text)

    def waiting(self) -> list[str]:
        """Returns the ids of the requests that have text."""
        return list(self._texts)

    def give(self, rows: Sequence[FrameRow]) -> None:
        """Gives the talker the texts of one row. `rows` has exactly one, as `isolate` passes it."""
        (row,) = rows
        assert row.prompt.feed is not None  # only requests with open text are sent any
        for tokens, final in self._tokens(row.job.id, row.prompt.feed):
            if self._extend is None:
                raise TypeError("a prompt takes text while it is spoken, but its worker has no trait 'extend'")
            self._extend(tokens, final, self._memory.rows([row.slot]), self._memory.state)

    def _tokens(self, job_id: str, feed: TextFeed) -> Iterator[tuple[list[int], bool]]:
        """Takes the texts of a request; yields the tokens that the current prompt gets, and whether they are the last.

        Once the feed takes no more, text is for the next prompt and yields nothing.
        """
        for text in self._texts.pop(job_id, []):
            is_for_next = feed.steps() is None
            tokens = [*feed.push(text.text), *(feed.close() if text.final else ())]
            if not is_for_next:
                yield tokens, text.final

    def forget(self, job_id: str) -> None:
        self._texts.pop(job_id, None)
