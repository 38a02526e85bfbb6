"""The chunk policy of a CPU, where a launch is the work itself and everybody else waits for it."""

from __future__ import annotations

import numpy as np

from rhapsode.engine.clock import Ints, Seconds
from rhapsode.engine.policy import Bools, Choice, GpuPolicy, Ready


class CpuPolicy(GpuPolicy):
    """For devices where a launch is the work itself: chunks are so small that all listeners are served in time."""

    BUSY = 0.4
    SOON_S = -np.inf
    SPARE = 1
    PROMPT_S = 0.0
    """A prompt is a turn of its own: frames do not wait for many of them."""
    NEGLIGIBLE = 0.1
    """Below this part of a block's playing time, serving everybody once costs nothing worth planning for."""
    RESERVE = 0.5
    """A chunk may take this part of the time its listener has left, so that the others fit in, too."""
    LEAST_S = 0.08
    """A chunk is no shorter than this for lack of time: below, a launch costs the same however short the chunk is."""
    NEWCOMER_S = 0.04
    """A launch takes no longer while somebody has heard nothing yet."""
    ENOUGH_S = 0.32
    """A chunk waits for no more than this, though it takes more where there is more: an idle core is lost."""
    MEMORY = 0.9
    """How much of the measured cost is carried over to the next measurement."""

    _chosen_s, _is_usual = 0.0, True
    """When a launch was chosen, and whether a talker works beside it. Alone it is faster than it usually is."""
    _recent = np.zeros(2)
    """Seconds that launches took, and blocks they were of."""

    def choose(self, ready: Ready, most: int) -> Choice | None:
        choice = super().choose(ready, most)
        self._chosen_s, self._is_usual = self._clock.now_s(), not ready.closing.all()
        return None if choice is None else self._in_time(ready, choice)

    def _yields(self, ready: Ready, choice: Choice) -> bool:
        """Returns whether all of a launch can wait for the next frame of somebody who is about to run dry."""
        left_s, begun = self._clock.left_s(ready.slots), self._clock.begun(ready.slots)
        dry = begun & (left_s < 2 * self.NEWCOMER_S) & (left_s > 0) & (ready.blocks == 0)
        return bool(dry.any()) and not self._in_need(choice.slots).any()

    def _in_time(self, ready: Ready, choice: Choice) -> Choice:
        """Cuts a launch to what all others can wait for. Its first row is the one that is most in need."""
        block_s, slots, blocks = self._launch_s(), choice.slots, choice.blocks
        if not block_s:
            return choice
        is_first_chunk = not self._clock.begun(slots[:1])[0]
        others = ready.slots if is_first_chunk else ready.slots[ready.slots != slots[0]]
        begun = others[self._clock.begun(others)]
        allowed_s = self.RESERVE * float(self._clock.left_s(begun).min(initial=np.inf))
        if not is_first_chunk and (ready.joining or len(begun) < len(others)):
            allowed_s = min(allowed_s, self.NEWCOMER_S)
        allowed = min(max(allowed_s / block_s, len(ready.slots), self._least), blocks * len(slots))
        if not is_first_chunk:
            blocks = self._schedule.fit(int(min(blocks, allowed)))
        in_need = self._in_need(slots)
        if in_need[0]:
            slots = slots[in_need]  # who has plenty would only make the launch longer
        return Choice(slots[: max(1, int(allowed / blocks))], blocks)

    def _in_need(self, slots: Ints) -> Bools:
        """Who has heard nothing yet, or has little left to play."""
        return ~self._clock.begun(slots) | (self._clock.left_s(slots) < self._config.comfort_s)

    def launched(self, choice: Choice) -> None:
        took_s = self._clock.now_s() - self._chosen_s
        if self._is_usual or not self._recent.any():
            self._recent = self.MEMORY * self._recent + (took_s, choice.blocks * len(choice.slots))
        super().launched(choice)

    def _launch_s(self) -> float:
        seconds, blocks = self._recent.tolist()
        return seconds / blocks if blocks else 0.0

    def _wanted(self, ready: Ready, left_s: Seconds) -> Ints:
        slots, wanted = ready.slots, super()._wanted(ready, left_s)
        all_s = self._all_s(max(1, int(self._in_need(slots).sum())) + ready.joining)
        if not all_s:
            return wanted
        affordable = np.maximum(self.RESERVE * left_s / all_s, self._least).astype(np.int64)
        return np.where(self._clock.begun(slots), np.minimum(wanted, affordable), wanted)

    def _due(self, slots: Ints, wanted: Ints) -> Ints:
        return np.where(self._clock.begun(slots), np.minimum(wanted, max(1, self._lasting(self.ENOUGH_S))), wanted)

    def _second(self, first: int) -> float:
        return first  # `_wanted` makes it no larger where time is short: here a small launch costs little more

    def _block_wait_s(self, ready: Ready) -> float:
        return max(self._talker_s(ready), self._all_s(ready.listeners))

    def _common(self, ready: Ready, able: Ints) -> int:
        return 0  # first audio would come later: here a larger chunk takes longer

    @property
    def _least(self) -> int:
        return max(1, self._lasting(self.LEAST_S))

    def _all_s(self, rows: int) -> float:
        """Seconds of work for one block of everybody; 0: too few to plan for."""
        all_s = self._launch_s() * rows
        return all_s if all_s >= self.NEGLIGIBLE * self._block_s else 0.0
