"""The delay pattern: codebook q of a frame is generated q steps after codebook 0.

A *row* is what one step generates: a code of every codebook, each of another frame. A step completes the frame whose
first code came `books - 1` steps before. Two codes past the real ones mark what is outside the speech: `begin` before
a codebook's first code, `end` after its last one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.device.state import State, buffer


@dataclass(frozen=True)
class DelayPattern:
    """How rows are laid out, which codes are forced, when the speech ends, and which codes frames have."""

    books: int
    codes: int
    """Real codes per codebook; `begin` and `end` are the two ids after them."""
    framed: bool
    """A recording has a column of `begin` before it and one of `end` after it, before it is delayed."""
    ends_with: Literal["any codebook", "codebook 0"]
    """Which codebook starts the end of the speech.

    Any: once a codebook draws `end`, codebook q is forced to `end` q + 1 steps later. The first row with no other code
    is the last one; it completes no frame. Codebook 0: once it draws `end` after the first frame is complete, the frame
    before that one is the last; nothing is forced.
    """
    past_end: Literal["clip", "zero"]
    """What a frame has in place of `begin` and `end`: the highest code, or 0."""

    @property
    def begin(self) -> int:
        return self.codes

    @property
    def end(self) -> int:
        return self.codes + 1

    @property
    def vocabulary(self) -> int:
        """Ids of a codebook: its codes, `begin` and `end`."""
        return self.codes + 2

    @property
    def silent_steps(self) -> int:
        """How many steps run before the first frame is complete."""
        return self.books - 1

    def delayed(self, frames: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the rows of a recording's frames `[T, books]`: [T + silent steps, books], 2 more if framed."""
        margin = int(self.framed)
        place = np.arange(len(frames) + 2 * margin + self.silent_steps)[:, None] - np.arange(self.books) - margin
        codes = np.take_along_axis(frames, place.clip(0, len(frames) - 1), axis=0)
        rows = np.where(place < 0, self.begin, np.where(place >= len(frames), self.end, codes))
        return rows.astype(np.int64)


class DelayState(State):
    """How far each slot is in its pattern."""

    def __init__(self, slots: int, pattern: DelayPattern, device: torch.device) -> None:
        def ints(*shape: int) -> Tensor:
            return buffer(slots, *shape, dtype=torch.int64, device=device)

        self.rows = ints(pattern.books, pattern.books)  # by codebook: its codes of the last rows, in a ring
        self.count = ints()  # steps so far
        self.ending = ints()  # steps since the end began, counting that one; 0: it has not begun


class DelayStep(NamedTuple):
    """The result of one step."""

    row: Tensor  # [B, books]: the next step's input
    frame: Tensor  # [B, books]: real codes only
    emitted: Tensor  # [B] bool: the frame is complete
    stopped: Tensor  # [B] bool: this was the last step


class Delay:
    """Runs the pattern on the slots of a device."""

    def __init__(self, pattern: DelayPattern, device: torch.device) -> None:
        self.pattern = pattern
        self._device = device
        self._any_ends = pattern.ends_with == "any codebook"
        self._book = torch.arange(pattern.books, device=device)

    def state(self, slots: int) -> DelayState:
        return DelayState(slots, self.pattern, self._device)

    def begin(self, slots: Tensor, state: DelayState) -> None:
        """Starts a new speech in these slots."""
        state.count.index_fill_(0, slots, 0)
        state.ending.index_fill_(0, slots, 0)

    def advance(self, drawn: Tensor, slots: Tensor, state: DelayState) -> DelayStep:
        """Runs one step, for which the codes `drawn [B, books]` were sampled."""
        pattern, count, ending = self.pattern, state.count[slots], state.ending[slots]
        row = drawn.masked_fill(self._book > count[:, None], pattern.begin)
        if self._any_ends:
            row = row.masked_fill(self._book < ending[:, None], pattern.end)
        ends = row == pattern.end
        begun = ends.any(1) if self._any_ends else ends[:, 0] & (count > pattern.silent_steps)
        ending = torch.where(ending > 0, ending + 1, begun.to(ending.dtype))
        stopped = ends.all(1) if self._any_ends else ending >= max(1, pattern.silent_steps)
        complete = count >= pattern.silent_steps
        frame = self._complete(row, slots, count, state)
        state.count[slots] = count + 1
        state.ending[slots] = ending
        return DelayStep(row, frame, complete & ~stopped if self._any_ends else complete, stopped)

    def _complete(self, row: Tensor, slots: Tensor, count: Tensor, state: DelayState) -> Tensor:
        """Stores a row, and returns the frame that it completes: codebook q as it was `books - 1 - q` rows ago."""
        books, codes = self.pattern.books, self.pattern.codes
        state.rows[slots, :, count % books] = row
        place = (count[:, None] + 1 + self._book) % books
        frame = state.rows[slots].gather(2, place[..., None])[..., 0]
        if self.pattern.past_end == "clip":
            return frame.clamp(max=codes - 1)
        return frame.masked_fill(frame >= codes, 0)
