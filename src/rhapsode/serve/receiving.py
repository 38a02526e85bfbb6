"""Ends connections whose clients send too slowly."""

from __future__ import annotations

import asyncio

from rhapsode.serve.stall import reset

SLOW_LINK_BYTES_PER_S = 8192
WINDOW_S = 5.0
SMALL_BYTES = 2**16
"""What a client may send as slowly as `limit_s` allows."""


class Receiving:
    """Resets a connection whose client takes too long to send a request or a message.

    It has `limit_s`, and longer for what takes longer on a slow link. Beyond `SMALL_BYTES` it must also be as fast as a
    slow link in every `WINDOW_S`: otherwise the last byte of a large upload could be withheld for as long as all of it
    may take. Time in which this server does not read does not count.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, limit_s: float) -> None:
        self._loop, self._limit_s = loop, limit_s
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._begun_s = self._checked_s = 0.0
        self._received = self._checked = 0

    @property
    def is_on(self) -> bool:
        return self._timer is not None

    def begin(self, transport: asyncio.Transport) -> None:
        self.end()
        self._transport = transport
        self._begun_s = self._loop.time()
        self._received = 0
        self._wait(self._begun_s, self._limit_s)

    def add(self, size: int) -> None:
        self._received += size

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._transport = None

    def _wait(self, now_s: float, left_s: float) -> None:
        self._checked_s, self._checked = now_s, self._received
        self._timer = self._loop.call_later(min(WINDOW_S, left_s), self._check)

    def _check(self) -> None:
        assert self._transport is not None
        now_s = self._loop.time()
        is_reading = self._transport.is_reading()
        if not is_reading:
            self._begun_s += now_s - self._checked_s
        left_s = self._begun_s + self._limit_s + self._received / SLOW_LINK_BYTES_PER_S - now_s
        expected = SLOW_LINK_BYTES_PER_S * (now_s - self._checked_s) if self._received > SMALL_BYTES else 0
        is_slow = self._received - self._checked < expected and is_reading
        if left_s <= 0 or is_slow:
            reset(self._transport)
        else:
            self._wait(now_s, left_s)
