"""The memory of whole files: each client has a share, and a file that is not being read gives way to others."""

from __future__ import annotations

import logging

from rhapsode.serve.budget import Account, Budget
from rhapsode.serve.listener import Listener

log = logging.getLogger("rhapsode.serve")

SLICE_BYTES = 2**16
"""Sent at once, which also tells how fast the client reads."""


class WholeFile:
    """What one answer holds in the budget. Close it in every case."""

    def __init__(self, budget: Budget | None, listening: Listener | None) -> None:
        self._budget = budget
        self._listening = listening or Listener("")
        self._account: Account | None = None
        self.size = 0

    def grow(self, size: int) -> None:
        """Holds more bytes; raises `Busy` if there is no room. While the file is made, it is not ended."""
        self.size += size
        if self._budget is not None:
            self._account = self._account or self._budget.open(self._listening.client, self._end)
            self._account.hold(self.size)
            self._account.finish()

    def begin_send(self, size: int) -> None:
        """Notes that the file waits until its client has read so many more bytes."""
        if self._account is not None:
            self._account.await_reader(size)

    def sent(self, size: int) -> None:
        """Notes that the client has read so many bytes."""
        if self._account is not None:
            self._account.moved(size)

    def close(self) -> None:
        if self._account is not None:
            self._account.close()

    def _end(self) -> None:
        fields = {"client": self._listening.client}
        log.warning("a file that is not read was ended to make room", extra={"fields": fields})
        self._listening.reset()
