"""A streaming vocoder of symmetric convolutions: each one adds a delay of half its kernel, and computes each row once.

A causal convolution computes what one that pads both sides does, only later: with a kernel of 7, the output at row `t`
belongs to row `t - 3`. So the modules of `nn.vocoder` stream it, with three additions. A residual is delayed as much as
what is added to it. Rows before the first frame and after the last one are set to zero before every convolution, as in
the padding of one pass. The last convolution waits until the lag is a whole number of frames, the look-ahead.

The alternative is to decode a window again with frames of context on both sides: with a look-ahead of 10 frames, chunks
of one frame would cost 21 times as much, and chunks of 16 frames more than twice as much.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rhapsode.device.state import State, buffer
from rhapsode.nn.streaming import TailState, convolve, extend, join_tails
from rhapsode.nn.vocoder import DILATIONS, KERNEL, Activation, vocoder, vocoder_parts

HALF = KERNEL // 2
_FAR = 1 << 30  # bounds are 32-bit numbers, so that kernels can read them


class Lag(NamedTuple):
    """The rows per frame at the input of a convolution, and by how many rows this input is delayed."""

    rate: int
    rows: int


class SymmetricTail(NamedTuple):
    """How many rows a convolution or a residual keeps as state, the rows per frame, and the channels."""

    rows: int
    rate: int
    channels: int


def lags(rates: Sequence[int]) -> list[Lag]:
    """Returns the lag at every convolution whose kernel is larger than 1, in order."""
    rate, late = 1, HALF
    found = [Lag(1, 0)]
    for up in rates:
        found.append(Lag(rate, late))
        rate, late = rate * up, late * up + (up + 1) // 2
        for dilation in DILATIONS:
            found.append(Lag(rate, late))
            late += dilation * HALF
    return [*found, Lag(rate, late)]


def lookahead_frames(rates: Sequence[int]) -> int:
    """Returns how many frames after its own frame a sample depends on."""
    return -(-(lags(rates)[-1].rows + HALF) // prod(rates))


class FrameCounts(State):
    """The frames given so far, from which layers know which of their rows exist."""

    def __init__(self, slots: int, device: torch.device) -> None:
        self.given = buffer(slots, dtype=torch.int64, device=device)
        self.present = buffer(slots, dtype=torch.int64, device=device)
        """How many of the given frames exist: absent frames follow the end."""

    def advance(self, slots: Tensor, present: Tensor, lag: Tensor) -> Tensor:
        """Counts the frames of `present [B, n]`, and returns the rows of each layer's new input that exist.

        The result is `[layers, B, 2]`: the first such row, and the end. `lag [layers, 2]` has the layers' lags.
        """
        given = self.given.index_select(0, slots)
        end = self.present.index_select(0, slots) + present.sum(1)
        self.given.index_copy_(0, slots, given + present.shape[1])
        self.present.index_copy_(0, slots, end)
        self.given[-1].zero_()  # the scratch row
        self.present[-1].zero_()
        rate, late = lag[:, :1], lag[:, 1:]
        first = late - given * rate  # the row of frame 0
        return torch.stack([first, first + end * rate], dim=2).clamp(-_FAR, _FAR).to(torch.int32)


class SymmetricState(FrameCounts):
    """The tails of all layers in one buffer, which kernels copy in one launch, and the frames given so far."""

    def __init__(self, net: SymmetricVocoder, slots: int) -> None:
        like = vocoder_parts(net.chain).begin.conv.weight
        super().__init__(slots, like.device)
        self.layers = [TailState(slots, like, tail.channels, tail.rows) for tail in net.tails()]
        self.tails = join_tails(self.layers)  # [slots + 1, all tails]

    def tensors(self) -> Iterator[Tensor]:
        yield from (self.given, self.present, self.tails)


class SymmetricVocoder(nn.Module):
    """Decodes `[B, inputs, n]` to `[B, 1, n * hop]`, delayed by `lookahead` frames."""

    lag: Tensor  # [layers, 2]

    def __init__(self, inputs: int, dim: int, rates: Sequence[int], activation: Activation) -> None:
        super().__init__()
        self.chain = vocoder(inputs, dim, rates, activation)
        self.hop, self.lookahead = prod(rates), lookahead_frames(rates)
        layers = lags(rates)
        self.wait = self.lookahead * self.hop - layers[-1].rows - HALF
        """Rows that the last convolution waits, so that whole frames come out."""
        self.register_buffer("lag", torch.tensor(layers, device="cpu"), persistent=False)

    def state(self, slots: int) -> SymmetricState:
        return SymmetricState(self, slots)

    def tails(self) -> Iterator[SymmetricTail]:
        """Yields what the layers keep, in the order in which they run."""
        begin, blocks, _, last = vocoder_parts(self.chain)
        yield SymmetricTail(begin.tail, 1, begin.conv.in_channels)
        rate = 1
        for _, up, units in blocks:
            yield SymmetricTail(up.taps - 1, rate, up.conv.in_channels)
            rate *= up.stride
            for conv in (unit.conv1 for unit in units):
                yield SymmetricTail(conv.tail, rate, conv.conv.in_channels)
                yield SymmetricTail(conv.tail // 2, rate, conv.conv.in_channels)  # the residual
        yield SymmetricTail(last.tail + self.wait, rate, last.conv.in_channels)

    def forward(self, x: Tensor, present: Tensor, slots: Tensor, state: SymmetricState) -> Tensor:
        """Decodes the next frames of these slots; `present [B, n]` is false for frames after the end.

        The first `lookahead` frames of a slot's output precede its first frame, and are meaningless.
        """
        begin, blocks, last_act, last = vocoder_parts(self.chain)
        bounds, tails = iter(state.advance(slots, present, self.lag)), iter(state.layers)
        x = begin(existing(x, next(bounds)), slots, next(tails))
        for act, up, units in blocks:
            x = up(existing(act(x), next(bounds)), slots, next(tails))
            for unit in units:
                inner = existing(unit.act1(x), next(bounds))
                inner = unit.conv2(unit.act2(unit.conv1(inner, slots, next(tails))))
                x = delayed(x, slots, next(tails)) + inner
        held = extend(existing(last_act(x), next(bounds)), slots, next(tails))
        return convolve(held[..., : x.shape[2] + last.tail], last.conv.weight, last.conv.bias)


def exists(bounds: Tensor, length: int) -> Tensor:
    """Returns which of `length` rows are inside of `bounds [B, 2]`, `[B, length]`."""
    row = torch.arange(length, device=bounds.device)
    return (row >= bounds[:, :1]) & (row < bounds[:, 1:])


def existing(x: Tensor, bounds: Tensor) -> Tensor:
    """Sets the rows of `x [B, C, T]` outside of `bounds [B, 2]` to zero."""
    return torch.where(exists(bounds, x.shape[2])[:, None], x, 0)


def delayed(x: Tensor, slots: Tensor, state: TailState) -> Tensor:
    """Returns `x [B, C, T]` as many rows later as the state holds."""
    return extend(x, slots, state)[..., : x.shape[2]]
