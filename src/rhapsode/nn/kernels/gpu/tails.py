"""The state of all causal convolutions (the tails of their inputs), copied to and from working buffers in one launch.

The working buffers of a launch, `[B, tail + T + ahead, C]` per convolution, follow each other in one tensor. The tails
of a slot follow each other in one row of the state, in the same order. So both directions copy contiguous runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.gpu.launch import options, wait_for_previous

_BLOCK = 2048


@dataclass(frozen=True)
class TailSpec:
    """The sizes of the input of one streaming convolution, in rows of `channels` numbers.

    A launch reads `tail` rows that the launch before has kept, then `per_frame` new rows for each frame, then `ahead`
    rows of look-ahead. The next launch gets the look-ahead again, so it is not kept.
    """

    tail: int
    per_frame: int
    channels: int
    ahead: int = 0


class Tails:
    """Copies the tails of several convolutions, which begin at column `first` of the state."""

    def __init__(self, specs: Sequence[TailSpec], first: int, device: torch.device) -> None:
        self._specs = specs
        kept, held, new, blocks = 0, 0, 0, []
        for spec in specs:
            tail, fresh = spec.tail * spec.channels, spec.per_frame * spec.channels
            both = tail + spec.ahead * spec.channels
            blocks += [
                (first + kept + at, at, min(_BLOCK, tail - at), held, new, both, fresh)
                for at in range(0, tail, _BLOCK)
            ]  # fmt: skip
            kept, held, new = kept + tail, held + both, new + fresh
        self.kept, self._held, self._new = kept, held, new
        # In units of 8 numbers where all sizes are multiples of that, so that the compiler can use wide copies.
        self._unit = 8 if all(size % 8 == 0 for block in blocks for size in block) else 1
        self._blocks = torch.tensor(blocks, dtype=torch.int64, device=device) // self._unit  # [blocks, 7]

    def open(self, state: Tensor, slots: Tensor, frames: int) -> list[Tensor]:
        """Returns working buffers `[B, tail + T + ahead, C]`, which begin with the tails from `state [S, kept]`."""
        batch = len(slots)
        work = state.new_empty(batch * (self._held + frames * self._new))
        self._copy(state, work, slots, frames)
        shapes = [(batch, spec.tail + frames * spec.per_frame + spec.ahead, spec.channels) for spec in self._specs]
        sizes = [b * t * c for b, t, c in shapes]
        return [run.view(shape) for run, shape in zip(work.split(sizes), shapes, strict=True)]

    def close(
        self, state: Tensor, slots: Tensor, frames: int, buffers: Sequence[Tensor], position: Tensor | None = None
    ) -> None:
        """Stores the ends of these buffers, without the `ahead` rows, as tails.

        Advances `position [S]`, where given, by `frames`.
        """
        self._copy(state, buffers[0], slots, frames, position, save=True)

    def _copy(
        self,
        state: Tensor,
        work: Tensor,
        slots: Tensor,
        frames: int,
        position: Tensor | None = None,
        save: bool = False,
    ) -> None:
        _copy_tails[(len(self._blocks), len(slots))](
            state, work, slots, self._blocks, position, len(slots), frames, state.stride(0),
            SAVE=save, UNIT=self._unit, BLOCK=_BLOCK, num_warps=4, **options(),
        )  # fmt: skip


@triton.jit(do_not_specialize=["rows", "frames"])
def _copy_tails(
    state, work, slots, blocks, position, rows, frames, state_row,
    SAVE: tl.constexpr, UNIT: tl.constexpr, BLOCK: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    block = blocks + tl.program_id(0) * 7
    b = tl.program_id(1)
    in_state, at, count = tl.load(block), tl.load(block + 1), tl.load(block + 2)
    held, new, both, fresh = tl.load(block + 3), tl.load(block + 4), tl.load(block + 5), tl.load(block + 6)
    in_work = rows * (held + frames * new) + b * (both + frames * fresh) + at
    if SAVE:
        in_work += frames * fresh
    i = tl.arange(0, BLOCK)
    ok = i < count * UNIT
    wait_for_previous(OVERLAP)
    slot = tl.load(slots + b)
    state += slot * state_row + in_state * UNIT + i
    work += in_work * UNIT + i
    if SAVE:
        tl.store(state, tl.load(work, mask=ok), mask=ok)
    else:
        tl.store(work, tl.load(state, mask=ok), mask=ok)
    if position is not None and tl.program_id(0) == 0:
        tl.store(position + slot, tl.load(position + slot) + frames)
