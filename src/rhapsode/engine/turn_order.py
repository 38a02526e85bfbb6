"""Decides whether prompts or frames of a talker go next, on a device that works while the host goes on."""

from __future__ import annotations

from collections import deque

from rhapsode.engine.clock import clock_s


class TurnOrder:
    """Divides the time of a device between prompts and frames.

    Prompts go first, since their listeners have heard nothing yet. But running requests need a frame in the time that a
    frame plays. So between two frames prompts take at most `MOST_S`, and less if a frame itself takes long.

    A frame is launched while another is in flight, so that the device never waits for the host. But a prompt that
    arrives then waits for both. So short frames, those of few listeners, are launched just before the frame in flight
    ends. If that frame is the first of a request, the next is launched after its end: the first audio goes ahead.
    """

    MOST_S = 0.04
    LEAST, HEADROOM = 0.25, 0.75
    """Parts of a frame's playing time: the least that prompts get, and the most that prompts and a frame may take."""
    SHORT_S, AHEAD_S = 0.006, 0.001
    """Frames shorter than `SHORT_S` are launched just in time: `AHEAD_S` before the one in flight ends."""
    NEW = 0.3
    """The weight of a new measurement in the moving average of how long a frame takes."""

    def __init__(self, frame_s: float) -> None:
        """`frame_s`: how long a frame plays."""
        self._plays_s = frame_s
        self._takes_s = 0.0
        self._prompts_s = self._last_s = 0.0  # of all prompts since the last frame, and of their last launch
        self._frames: deque[tuple[bool, float]] = deque()  # in flight: directly after another? prompts before
        self._launched_s = self._landed_s = 0.0
        self._is_first = False

    @property
    def is_frame_due(self) -> bool:
        """Whether prompts have used their time since the last frame: one more launch like the last would exceed it."""
        return self._prompts_s > 0 and self._prompts_s + self._last_s > self.most_s

    @property
    def most_s(self) -> float:
        """The most seconds that prompts may take between two frames."""
        left_s = self.HEADROOM * self._plays_s - self._takes_s
        return min(self.MOST_S, max(self.LEAST * self._plays_s, left_s))

    def prompts_launched(self, seconds: float) -> None:
        """Notes that prompts were launched, and how long they will take; 0 if unknown."""
        self._last_s = seconds or self.most_s
        self._prompts_s += self._last_s

    @property
    def is_early(self) -> bool:
        """Whether it is too early to launch a frame: it would only wait for the one in flight."""
        if len(self._frames) != 1 or not 0 < self._takes_s < self.SHORT_S:
            return False
        begun_s = max(self._launched_s, self._landed_s)
        return self._is_first or clock_s() < begun_s + self._takes_s - self.AHEAD_S

    def frame_launched(self, is_first: bool = False) -> None:
        """Notes that a frame was launched. `is_first`: it is the first frame of a request."""
        self._frames.append((bool(self._frames) and not self._prompts_s, self._prompts_s))
        self._prompts_s, self._is_first, self._launched_s = 0.0, is_first, clock_s()

    def frame_landed(self) -> float:
        """Notes that a frame has landed; returns how long the prompts that ran before it took."""
        now_s, (follows, prompts_s) = clock_s(), self._frames.popleft()
        if follows:
            took_s = now_s - self._landed_s
            self._takes_s += (self.NEW if self._takes_s else 1.0) * (took_s - self._takes_s)
        elif not self._frames and not self._is_first:  # no other frame was in flight: the frame took at most this long
            self._takes_s = min(self._takes_s, now_s - self._launched_s)
        self._landed_s = now_s
        return prompts_s
