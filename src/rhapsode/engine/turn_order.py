"""Whether a talker's prompts or its frames go next, on a device that works while the host goes on."""

from __future__ import annotations

from collections import deque

from rhapsode.engine.clock import clock_s


class TurnOrder:
    """Divides the time of a device between prompts and frames.

    Prompts go first, since nobody has heard anything of them yet. But those who listen need a frame in the time that a
    frame plays. So between two frames prompts take at most `MOST_S`, and less where a frame itself takes long.

    A frame is launched while another is in flight, so that the device never waits for the host. But a prompt that comes
    then waits for both. So short frames, those of few listeners, are launched just before the one in flight ends, or
    when it has ended if it is the first one of a request: then its audio goes ahead of the next frame.
    """

    MOST_S = 0.04
    LEAST, HEADROOM = 0.25, 0.75
    """Parts of a frame's playing time: what prompts get at least, and what prompts and a frame may take together."""
    SHORT_S, AHEAD_S = 0.006, 0.001
    """Frames that are launched just in time, and how long before the one in flight ends."""
    NEW = 0.3
    """How much a measurement changes what is known of frames."""

    def __init__(self, frame_s: float) -> None:
        """`frame_s`: how long a frame plays."""
        self._plays_s = frame_s
        self._takes_s = 0.0
        self._prompts_s = self._last_s = 0.0  # all prompts since the last frame, and their last launch
        self._frames: deque[tuple[bool, float]] = deque()  # in flight: is it right after another, prompts before it
        self._launched_s = self._landed_s = 0.0
        self._is_first = False

    @property
    def is_frame_due(self) -> bool:
        """Whether prompts have had their share since the last frame: one more launch like the last would exceed it."""
        return self._prompts_s > 0 and self._prompts_s + self._last_s > self.most_s

    @property
    def most_s(self) -> float:
        """How long prompts may take between two frames."""
        left_s = self.HEADROOM * self._plays_s - self._takes_s
        return min(self.MOST_S, max(self.LEAST * self._plays_s, left_s))

    def prompts_launched(self, seconds: float) -> None:
        """Prompts were launched that take so long; 0: it is not known how long."""
        self._last_s = seconds or self.most_s
        self._prompts_s += self._last_s

    @property
    def is_early(self) -> bool:
        """Whether a frame that is launched now would only wait for the one in flight."""
        if len(self._frames) != 1 or not 0 < self._takes_s < self.SHORT_S:
            return False
        begun_s = max(self._launched_s, self._landed_s)
        return self._is_first or clock_s() < begun_s + self._takes_s - self.AHEAD_S

    def frame_launched(self, is_first: bool = False) -> None:
        """`is_first`: it is the first frame of a request."""
        self._frames.append((bool(self._frames) and not self._prompts_s, self._prompts_s))
        self._prompts_s, self._is_first, self._launched_s = 0.0, is_first, clock_s()

    def frame_landed(self) -> float:
        """Returns how long the prompts took that were run before the frame."""
        now_s, (follows, prompts_s) = clock_s(), self._frames.popleft()
        if follows:
            took_s = now_s - self._landed_s
            self._takes_s += (self.NEW if self._takes_s else 1.0) * (took_s - self._takes_s)
        elif not self._frames and not self._is_first:  # it was alone, and took no longer than this
            self._takes_s = min(self._takes_s, now_s - self._launched_s)
        self._landed_s = now_s
        return prompts_s
