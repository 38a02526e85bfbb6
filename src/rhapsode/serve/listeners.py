"""Takes the slot of a listener who does not read, while other requests wait for one."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

from rhapsode.serve.listener import Listener
from rhapsode.serve.response.delivery import Playback
from rhapsode.serve.response.sending import Stalled

LATE_S = 2.0
"""How much less a client may have read than a player would have played since the first byte. Networks and players that
read in steps need some of it."""
CHECK_S = 0.25


class NotRead(Stalled):
    """Others waited for the slot of a client that did not read."""

    code = "not_read"


class Listeners:
    """All playbacks of a server with a listener. To be used on the event loop only."""

    def __init__(self, waiting: Callable[[], int], on_late: Callable[[Playback, Listener, NotRead], None]) -> None:
        """`waiting` counts the requests in the queue; `on_late` takes the slot of a playback."""
        self._waiting = waiting
        self._on_late = on_late
        self._playing: dict[Playback, Listener] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, playback: Playback, listener: Listener) -> None:
        self._playing[playback] = listener
        if self._timer is None:
            self._check_soon()

    def remove(self, playback: Playback) -> None:
        self._playing.pop(playback, None)

    def check(self) -> None:
        """Takes as many slots as requests wait for, of those who have read too little: first who is latest."""
        waiting = self._waiting()
        if not waiting:
            return
        lags = [(listener.lag_s(), playback) for playback, listener in self._playing.items() if playback.holds_slot]
        late = heapq.nlargest(waiting, (one for one in lags if one[0] > LATE_S), key=lambda one: one[0])
        for lag_s, playback in late:
            error = NotRead(f"others waited, and {lag_s:.1f} s of the audio that was due had not been read.")
            self._on_late(playback, self._playing[playback], error)

    def _check_soon(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(CHECK_S, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.check()
        if self._playing:
            self._check_soon()
