"""Has a stream worker prepare slots with the payloads of their requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rhapsode.device.memory import SlotMemory
from rhapsode.device.ragged import LaunchSizes
from rhapsode.device.sections import section
from rhapsode.engine.isolation import isolate
from rhapsode.engine.row import StreamRow
from rhapsode.models.base import traits_of


class Openings:
    """Calls the worker's trait `open`, for several requests together or one by one."""

    def __init__(self, worker: object, memory: SlotMemory, sizes: LaunchSizes | None, *, alone: bool) -> None:
        """`alone`: one by one, so that what is launched depends on no other request."""
        self._open, self._memory, self._sizes, self._alone = traits_of(worker).open, memory, sizes, alone

    def __call__(self, rows: Sequence[StreamRow], fail: Callable[[StreamRow, BaseException], None]) -> None:
        """Prepares the slots of those rows that have a payload. A payload that is bad fails its own request."""
        rows = [row for row in rows if row.payload is not None]
        for group in [[row] for row in rows] if self._alone else [rows]:
            list(isolate(group, self._open_on_device, fail))

    def _open_on_device(self, rows: Sequence[StreamRow]) -> None:
        if self._open is not None:
            batch = self._memory.rows([row.slot for row in rows])
            with section("codec"):
                self._open([row.payload for row in rows], batch, self._memory.state, self._sizes)
