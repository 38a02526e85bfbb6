"""The chunk policy of a CPU, where a launch does the work itself and all other listeners wait for it."""

from __future__ import annotations

import numpy as np

from rhapsode.engine.clock import Ints, Seconds
from rhapsode.engine.policy import Bools, Choice, GpuPolicy, Ready


class CpuPolicy(GpuPolicy):
    """For devices where a launch does the work itself: keeps chunks so small that all listeners are served in time."""

    BUSY = 0.4
    SOON_S = -np.inf
    SPARE = 1.3
    PROMPT_S = 0.0
    """A prompt takes a turn of its own, so frames do not wait for many prompts."""
    NEGLIGIBLE = 0.1
    """If one block for every listener takes less than this part of a block's playing time, the cost is ignored."""
    RESERVE = 0.5
    """Launches may take this part of the time until a listener runs out of audio, so that others are served, too."""
    LEAST_S = 0.08
    """Lack of time makes no chunk shorter than this: below it, a launch costs the same, however short the chunk is."""
    LEAST_BLOCKS = 2
    """Lack of time makes no launch smaller than this: the two halves of a codec's work overlap only inside a launch."""
    DELIVERY_S = 0.02
    """How long audio may take from the end of a launch to its listener, while all cores are busy."""
    NEWCOMER_S = 0.04
    """While another listener has heard nothing yet, the launch of a later chunk takes no longer than this."""
    ENOUGH_S = 0.32
    """A chunk waits for no more audio than this, so that no core is idle. It is longer if more has arrived."""
    MEMORY = 0.9
    """How much of the earlier measurements of the cost is kept when a new one is added."""

    _chosen_s, _is_usual = 0.0, True
    """When the last launch was chosen, and whether the talker works beside it: alone, launches are faster."""
    _recent = np.zeros(2)
    """Seconds that recent launches took, and the blocks they worked on: two sums that decay."""

    def choose(self, ready: Ready, most: int) -> Choice | None:
        choice = super().choose(ready, most)
        self._chosen_s, self._is_usual = self._clock.now_s(), not ready.closing.all()
        return None if choice is None else self._in_time(ready, choice)

    def _yields(self, ready: Ready, choice: Choice) -> bool:
        """Returns whether a launch waits, because a listener who is about to underrun needs the next frame first."""
        left_s, begun = self._clock.left_s(ready.slots), self._clock.begun(ready.slots)
        dry = begun & (left_s < 2 * self.NEWCOMER_S) & (left_s > 0) & (ready.blocks == 0)
        return bool(dry.any()) and not self._in_need(choice.slots).any()

    def _in_time(self, ready: Ready, choice: Choice) -> Choice:
        """Makes a launch so short that its first row, the most urgent one, gets its audio in time, and that all other
        listeners can wait for it."""
        block_s, slots, blocks = self._launch_s(), choice.slots, choice.blocks
        if not block_s:
            return choice
        is_first_chunk = not self._clock.begun(slots[:1])[0]
        others = ready.slots if is_first_chunk else ready.slots[ready.slots != slots[0]]
        begun = others[self._clock.begun(others)]
        allowed_s = self.RESERVE * float(self._clock.left_s(begun).min(initial=np.inf))
        if not is_first_chunk and (ready.joining or len(begun) < len(others)):
            allowed_s = min(allowed_s, self.NEWCOMER_S)
        allowed = min(max(allowed_s / block_s, self.LEAST_BLOCKS, self._least), blocks * len(slots))
        if not is_first_chunk:
            blocks = self._schedule.fit(int(min(blocks, allowed)))
            in_time_s = float(self._clock.left_s(slots[:1])[0]) - self.DELIVERY_S
            allowed = min(allowed, max(in_time_s / block_s, self.LEAST_BLOCKS * blocks))
        in_need = self._in_need(slots)
        if in_need[0]:
            slots = slots[in_need]  # listeners with plenty of audio would only make the launch longer
        return Choice(slots[: max(1, int(allowed / blocks))], blocks)

    def _in_need(self, slots: Ints) -> Bools:
        """Returns, for each slot, whether its listener has heard nothing yet or has little audio left."""
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
        return first  # `_wanted` makes it no larger if time is short: on a CPU a small launch costs little more

    def _block_wait_s(self, ready: Ready) -> float:
        return max(self._talker_s(ready), self._all_s(ready.listeners))

    def _common(self, ready: Ready, able: Ints) -> int:
        return 0  # first audio would come later: on a CPU a larger chunk takes longer

    def _first_in_s(self) -> float:
        return (self._most_first + 1) * self._launch_s() + self.DELIVERY_S  # a first chunk, then a block of their own

    @property
    def _least(self) -> int:
        return max(1, self._lasting(self.LEAST_S))

    def _all_s(self, rows: int) -> float:
        """Returns the seconds of work for one block of each of these rows; 0 if that is negligible."""
        all_s = self._launch_s() * rows
        return all_s if all_s >= self.NEGLIGIBLE * self._block_s else 0.0
