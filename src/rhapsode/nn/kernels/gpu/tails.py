"""What all convolutions keep of their inputs, moved between slots and working buffers in one launch each way.

The working buffers of a launch, `[B, tail + T, C]` per convolution, lie in one tensor one after the other. A slot's
tails lie in one row of the state in the same order. So both ways are copies of contiguous runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.launch import after_predecessor, options

_BLOCK = 2048


@dataclass(frozen=True)
class Part:
    """One convolution's input: so many rows are kept, so many come with each frame."""

    tail: int
    per_frame: int
    channels: int


class Tails:
    """The tails of these convolutions, in the order of the state's row, of which they begin at `first`."""

    def __init__(self, parts: Sequence[Part], first: int, device: torch.device) -> None:
        self._parts = parts
        kept, new, blocks = 0, 0, []
        for part in parts:
            tail, fresh = part.tail * part.channels, part.per_frame * part.channels
            blocks += [
                (first + kept + at, at, min(_BLOCK, tail - at), kept, new, tail, fresh)
                for at in range(0, tail, _BLOCK)
            ]  # fmt: skip
            kept, new = kept + tail, new + fresh
        self.kept, self._new = kept, new
        # In units of 16 bytes where everything is a multiple of that, so that the compiler knows it.
        self._unit = 8 if all(size % 8 == 0 for block in blocks for size in block) else 1
        self._blocks = torch.tensor(blocks, dtype=torch.int64, device=device) // self._unit  # [blocks, 7]

    def open(self, state: Tensor, slots: Tensor, frames: int) -> list[Tensor]:
        """The working buffers `[B, tail + T, C]` for so many frames, their beginnings filled from `state [S, kept]`."""
        batch = len(slots)
        work = state.new_empty(batch * (self.kept + frames * self._new))
        self._move(state, work, slots, frames)
        shapes = [(batch, part.tail + frames * part.per_frame, part.channels) for part in self._parts]
        sizes = [b * t * c for b, t, c in shapes]
        return [run.view(shape) for run, shape in zip(work.split(sizes), shapes, strict=True)]

    def close(
        self, state: Tensor, slots: Tensor, frames: int, buffers: Sequence[Tensor], position: Tensor | None = None
    ) -> None:
        """Keep the ends of these buffers; `position [S]`, where given, moves on by so many frames."""
        self._move(state, buffers[0], slots, frames, position, save=True)

    def _move(
        self,
        state: Tensor,
        work: Tensor,
        slots: Tensor,
        frames: int,
        position: Tensor | None = None,
        save: bool = False,
    ) -> None:
        _move[(len(self._blocks), len(slots))](
            state, work, slots, self._blocks, position, len(slots), frames, state.stride(0),
            SAVE=save, UNIT=self._unit, BLOCK=_BLOCK, num_warps=4, **options(),
        )  # fmt: skip


@triton.jit(do_not_specialize=["rows", "frames"])
def _move(
    state, work, slots, blocks, position, rows, frames, state_row,
    SAVE: tl.constexpr, UNIT: tl.constexpr, BLOCK: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    block = blocks + tl.program_id(0) * 7
    b = tl.program_id(1)
    in_state, at, count = tl.load(block), tl.load(block + 1), tl.load(block + 2)
    kept, new, tail, fresh = tl.load(block + 3), tl.load(block + 4), tl.load(block + 5), tl.load(block + 6)
    in_work = rows * (kept + frames * new) + b * (tail + frames * fresh) + at
    if SAVE:
        in_work += frames * fresh
    i = tl.arange(0, BLOCK)
    ok = i < count * UNIT
    after_predecessor(OVERLAP)
    slot = tl.load(slots + b)
    state += slot * state_row + in_state * UNIT + i
    work += in_work * UNIT + i
    if SAVE:
        tl.store(state, tl.load(work, mask=ok), mask=ok)
    else:
        tl.store(work, tl.load(state, mask=ok), mask=ok)
    if position is not None and tl.program_id(0) == 0:
        tl.store(position + slot, tl.load(position + slot) + frames)
