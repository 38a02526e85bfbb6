"""Limits the bytes that clients may hold in memory: each of them, and all together.

If there is no room, unfinished uploads make it, so that those who never finish one refuse nobody. Asked first are the
clients that hold most, and of their uploads the one that has waited longest for more bytes. An upload has to end if

- nothing of it has arrived for a while, or less than `SLOW_BYTES_PER_S`,
- or its client holds more than the one that needs room,
- or it is of the same client, and many times larger than what needs room.

Before any of them, what is kept only in case it is needed again gives way.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from rhapsode.errors import Busy

SILENT_S = 1.0
SLOW_BYTES_PER_S = 2**16
"""What arrives more slowly than this counts as silent: the last bytes of a large upload could take for ever."""
MANY_TIMES = 16


class _Client:
    """What one client holds."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.held = 0
        self.accounts = 0
        self.unfinished: dict[Account, None] = {}
        """Accounts that may be ended to make room, the one that has waited longest for more bytes first."""


class Budget:
    """Counts the bytes in use, in one account for each upload. To be called on the event loop only."""

    def __init__(
        self,
        limit: int,
        what: str,
        share: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        """`share` is the most that one client may hold; by default all. `on_close` is called when an account has been
        closed."""
        self._limit = limit
        self._share = share or limit
        self._what = what
        self._clock = clock
        self._on_close = on_close
        self._held = 0
        self._clients: dict[str, _Client] = {}
        self._spare: dict[Account, None] = {}

    def open(self, client: str = "", end: Callable[[], None] | None = None) -> Account:
        """Returns an empty account of a client. `end` ends its upload, to make room; without it, it is never ended."""
        owner = self._clients.setdefault(client, _Client(client))
        owner.accounts += 1
        return Account(self, owner, end)

    def _make_room(self, account: Account, size: int) -> None:
        """Ends uploads until an account may hold so many bytes."""
        own, more = account.client, size - account.held
        while own.held + more > self._share:
            self._end(self._largest_spare(account, own) or self._victim_of(own, account, size))
        while self._held + more > self._limit:
            if (spare := self._largest_spare(account)) is not None:
                self._end(spare)
                continue
            victims = (self._victim_of(client, account, size) for client in self._clients.values())
            self._end(max(filter(None, victims), key=lambda victim: victim.client.held, default=None))

    def _largest_spare(self, account: Account, client: _Client | None = None) -> Account | None:
        """Returns the largest of what nobody uses, of one client or of all."""
        spare = (other for other in self._spare if other is not account and client in (None, other.client))
        return max(spare, key=lambda other: other.held, default=None)

    def _victim_of(self, client: _Client, account: Account, size: int) -> Account | None:
        """Returns the upload of a client that has to end if an account is to hold so many bytes, or None."""
        now_s, own = self._clock(), account.client
        holds_more = client is not own and client.held > own.held + size - account.held
        for other in client.unfinished:
            if other is not account and other.held:
                is_silent = other.is_slow or now_s - other.grown_s > SILENT_S
                is_larger = client is own and other.held > MANY_TIMES * size
                if is_silent or (not other.is_read and (holds_more or is_larger)):
                    return other
        return None

    def _end(self, victim: Account | None) -> None:
        if victim is None:
            raise Busy(f"the server's memory for {self._what} is full.")
        victim.close()
        if victim.end is not None:
            victim.end()

    def _count(self, account: Account, size: int) -> None:
        account.held += size
        account.client.held += size
        self._held += size

    def _forget(self, client: _Client) -> None:
        client.accounts -= 1
        if not client.accounts:
            del self._clients[client.name]


class Account:
    """The bytes of one upload. Close it in every case."""

    def __init__(self, budget: Budget, client: _Client, end: Callable[[], None] | None) -> None:
        self._budget = budget
        self.client = client
        self.end = end
        self.held = 0
        self.grown_s = 0.0
        self.is_slow = False
        """Whether little moved in the last window of `SILENT_S`."""
        self.is_read = False
        """Whether it is an answer that is being read: it is ended only if that is too slow."""
        self._window_s: float | None = None
        self._in_window = 0
        self._is_closed = False

    def hold(self, size: int) -> None:
        """Holds so many bytes from now on; raises `Busy` if there is no room for them."""
        if self._is_closed:
            raise Busy("the upload was ended to make room for others.")
        if size > self.held:
            self._budget._make_room(self, size)
            if self.end is not None:
                self.client.unfinished.pop(self, None)
                self.client.unfinished[self] = None
                self.moved(size - self.held)
        self._budget._count(self, size - self.held)

    def moved(self, size: int) -> None:
        """Notes that so many bytes of the upload have arrived, or of an answer were read."""
        self.grown_s = now_s = self._budget._clock()
        if self._window_s is None:
            self._window_s = now_s
        elif (passed_s := now_s - self._window_s) > SILENT_S:
            self.is_slow = self._in_window + size < SLOW_BYTES_PER_S * passed_s
            self._window_s, self._in_window = now_s, 0
            return
        self._in_window += size

    def finish(self) -> None:
        """Notes that the upload is complete: it is not ended any more, until it grows again."""
        self.client.unfinished.pop(self, None)
        self._budget._spare.pop(self, None)
        self.is_slow, self._window_s = False, None

    def offer(self) -> None:
        """Notes that the upload may be ended again, although it is complete."""
        if self.end is not None and not self._is_closed:
            self.client.unfinished[self] = None

    def await_reader(self, size: int) -> None:
        """Notes that a client now reads so many bytes of what is held: it may be ended if that takes too long."""
        self.grown_s = self._budget._clock() + size / SLOW_BYTES_PER_S - SILENT_S
        self.is_read = True
        self.offer()

    def spare(self) -> None:
        """Notes that what is held is not in use: it is the first to be ended when room is needed."""
        if self.end is not None and not self._is_closed:
            self._budget._spare[self] = None

    def close(self) -> None:
        """Gives everything back."""
        if not self._is_closed:
            self._is_closed = True
            self.finish()
            self._budget._count(self, -self.held)
            self._budget._forget(self.client)
            self._budget._on_close()
