"""Causal convolutions that can stop at any frame and continue: a slot holds the inputs they still need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.device.state import State, buffer
from rhapsode.nn.derived import Derived

_FEW_CHANNELS = 48  # with fewer, inputs are long, and unfolding them costs more than a product per tap


PadMode = Literal["constant", "replicate", "reflect"]


class Streaming(nn.Module):
    """A module whose `forward(x, slots, state)` continues these slots; without them it is one pass over all of `x`."""

    def state(self, slots: int) -> State:
        raise NotImplementedError


class TailState(State):
    """The last inputs of a convolution. They start as zeros, like the padding of one causal pass.

    Channels are last, as kernels read and write them.
    """

    def __init__(self, slots: int, like: Tensor, channels: int, length: int) -> None:
        self.tail = buffer(slots, length, channels, dtype=like.dtype, device=like.device)


class PaddedTailState(TailState):
    """The same for a convolution whose padding depends on its first inputs."""

    def __init__(self, slots: int, like: Tensor, channels: int, length: int) -> None:
        super().__init__(slots, like, channels, length)
        self.started = buffer(slots, dtype=torch.bool, device=like.device)  # the tail holds inputs, no longer zeros


class ChainState(State):
    """One state per module of a `StreamingChain`."""

    def __init__(self, states: list[State]) -> None:
        self.states = states


def join_tails(states: Sequence[State]) -> Tensor:
    """Moves all tails of these states to one buffer `[slots + 1, all tails]`, in order; tails become views of it."""
    tails = list(_tails(states))
    sizes = [state.tail[0].numel() for state in tails]
    joined = torch.cat([state.tail.flatten(1) for state in tails], dim=1)
    for state, columns in zip(tails, joined.split(sizes, dim=1), strict=True):
        state.tail = columns.unflatten(1, state.tail.shape[1:])
    return joined


def _tails(states: Sequence[State]) -> Iterator[TailState]:
    for state in states:
        if isinstance(state, TailState):
            yield state
        elif isinstance(state, ChainState):
            yield from _tails(state.states)


def extend(x: Tensor, slots: Tensor, state: TailState, ahead: int = 0) -> Tensor:
    """Prepends the slots' tails to `x`, and keeps its end as their new tails: [B, C, T] to [B, C, tail + T].

    The last `ahead` inputs are look-ahead: the next call gets them again, so they are not kept.
    """
    length = state.tail.shape[1]
    joined = torch.cat([state.tail.index_select(0, slots).transpose(1, 2), x], dim=-1)
    end = joined.shape[-1] - ahead
    state.tail.index_copy_(0, slots, joined[..., end - length : end].transpose(1, 2))
    return joined


def left_padding(x: Tensor, length: int, mode: PadMode) -> Tensor:
    """Returns the left padding `[B, C, length]` of a whole pass over `x [B, C, T]`. `reflect` needs `T > length`."""
    if mode == "replicate":
        return x[..., :1].expand(-1, -1, length)
    if mode == "constant":
        return x.new_zeros(*x.shape[:2], length)
    if x.shape[-1] <= length:
        raise ValueError(f"reflect padding of {length} streams in chunks of more than {length} inputs")
    return x[..., 1 : length + 1].flip(-1)


def convolve(x: Tensor, weight: Tensor, bias: Tensor | None, dilation: int = 1, groups: int = 1) -> Tensor:
    """Does what `F.conv1d` does, faster for the short chunks of a stream.

    PyTorch's CPU kernels have a high start-up cost and process one row after the other, so on a CPU this is a product
    with the unfolded input, or one product per tap. On a GPU, float64 is such a product too: cuDNN's float64 kernel
    takes 0.18 ms even for a short chunk.
    """
    outputs, width, kernel = weight.shape
    depthwise = groups == outputs and width == 1
    if x.is_cuda and x.dtype == torch.float64 and groups == 1:
        return _unfolded(x, weight, bias, dilation)
    if x.device.type != "cpu" or kernel == 1 or not (groups == 1 or depthwise):
        return F.conv1d(x, weight, bias, dilation=dilation, groups=groups)
    batch, channels, length = x.shape[0], x.shape[1], x.shape[2] - (kernel - 1) * dilation
    if depthwise:
        y = x[..., :length] * weight[..., 0]
        for tap in range(1, kernel):
            y.addcmul_(x[..., tap * dilation :][..., :length], weight[..., tap])
    elif channels <= _FEW_CHANNELS:
        taps = weight.permute(2, 0, 1).unsqueeze(1).expand(-1, batch, -1, -1)  # [kernel, B, outputs, channels]
        y = taps[0].bmm(x[..., :length])
        for tap in range(1, kernel):
            y.baddbmm_(taps[tap], x[..., tap * dilation :][..., :length])
    else:
        rows, columns, step = x.stride()
        windows = x.as_strided((batch, channels, kernel, length), (rows, columns, dilation * step, step))
        y = weight.flatten(1).expand(batch, -1, -1).bmm(windows.reshape(batch, -1, length))
    return y if bias is None else y.add_(bias[:, None])


def _unfolded(x: Tensor, weight: Tensor, bias: Tensor | None, dilation: int) -> Tensor:
    """Convolves by one product of all windows `[B * T, C * kernel]` with the weights."""
    kernel = weight.shape[2]
    windows = x.unfold(2, (kernel - 1) * dilation + 1, 1)[..., ::dilation]  # [B, C, T, kernel]
    return F.linear(windows.transpose(1, 2).flatten(2), weight.flatten(1), bias).transpose(1, 2)


class CausalConv1d(Streaming):
    """A causal convolution.

    A strided one streams in chunks that are multiples of its stride; one pass pads the end of its input to a multiple.
    With `reflect` padding, it streams in chunks that are longer than the padding.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        stride: int = 1,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
        pad_mode: PadMode = "constant",
    ) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, stride, dilation=dilation, groups=groups, bias=bias)
        self.tail = (kernel - 1) * dilation + 1 - stride
        self.pad_mode = pad_mode

    def state(self, slots: int) -> State:
        if not self.tail:
            return State()
        kind = TailState if self.pad_mode == "constant" else PaddedTailState
        return kind(slots, self.conv.weight, self.conv.in_channels, self.tail)

    def forward(self, x: Tensor, slots: Tensor | None = None, state: State | None = None) -> Tensor:
        conv = self.conv
        if slots is None or conv.stride[0] > 1:
            return conv(self._pad(x) if slots is None else self._extend(x, slots, state))  # [B, outputs, T / stride]
        return convolve(self._extend(x, slots, state), conv.weight, conv.bias, conv.dilation[0], conv.groups)

    def _extend(self, x: Tensor, slots: Tensor, state: State | None) -> Tensor:
        if isinstance(state, PaddedTailState):
            self._start(x, slots, state)
        return extend(x, slots, state) if isinstance(state, TailState) else x

    def _start(self, x: Tensor, slots: Tensor, state: PaddedTailState) -> None:
        """Puts the padding into the tails of slots that have had no input. Only the device knows which these are."""
        started = state.started.index_select(0, slots)
        held = state.tail.index_select(0, slots)
        padding = left_padding(x, self.tail, self.pad_mode).transpose(1, 2)
        state.tail.index_copy_(0, slots, torch.where(started[:, None, None], held, padding))
        state.started.index_copy_(0, slots, torch.ones_like(started))

    def _pad(self, x: Tensor) -> Tensor:
        end = -x.shape[-1] % self.conv.stride[0]
        if not self.tail and not end:
            return x
        if self.pad_mode == "reflect" and x.shape[-1] <= self.tail:  # too few inputs to reflect: append zeros
            length = x.shape[-1]
            return F.pad(F.pad(x, (0, self.tail + 1 - length)), (self.tail, end), "reflect")[..., : self.tail + length]
        return F.pad(x, (self.tail, end), self.pad_mode)


class CausalConvTranspose1d(Streaming, Derived):
    """A causal transposed convolution: `stride` samples per input, without those after the last input.

    A sample depends on `kernel / stride` inputs, rounded up. So this is a causal convolution with `stride` outputs
    (phases) per channel. Computed that way, a sample is one dot product however the input is cut, and the state is a
    tail of inputs.
    """

    phases: Tensor  # [outputs * stride, inputs, taps]
    phase_bias: Tensor | None  # [outputs * stride]

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, bias: bool = True) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose1d(inputs, outputs, kernel, stride, bias=bias)
        self.stride = stride
        self.taps = -(-kernel // stride)
        self.register_buffer("phases", None, persistent=False)
        self.register_buffer("phase_bias", None, persistent=False)

    def derive(self) -> None:
        weight, bias = self.conv.weight, self.conv.bias
        inputs, outputs, kernel = weight.shape
        taps = F.pad(weight, (0, self.taps * self.stride - kernel)).view(inputs, outputs, self.taps, self.stride)
        oldest_first = taps.flip(2).permute(1, 3, 0, 2)  # [outputs, stride, inputs, taps]
        self.phases = oldest_first.reshape(outputs * self.stride, inputs, self.taps).contiguous()
        self.phase_bias = None if bias is None else bias.repeat_interleave(self.stride)

    def state(self, slots: int) -> State:
        return TailState(slots, self.conv.weight, self.conv.in_channels, self.taps - 1) if self.taps > 1 else State()

    def forward(self, x: Tensor, slots: Tensor | None = None, state: State | None = None) -> Tensor:
        batch, _, length = x.shape
        if slots is None:
            x = F.pad(x, (self.taps - 1, 0))
        elif isinstance(state, TailState):
            x = extend(x, slots, state)
        phases = convolve(x, self.phases, self.phase_bias).view(batch, -1, self.stride, length)
        return phases.transpose(2, 3).reshape(batch, -1, length * self.stride)  # [B, outputs, T * stride]


class StreamingChain(nn.Sequential, Streaming):
    """Runs modules in sequence; the state holds one entry per module."""

    def state(self, slots: int) -> ChainState:
        return ChainState([module.state(slots) if isinstance(module, Streaming) else State() for module in self])

    def forward(self, x: Tensor, slots: Tensor | None = None, state: ChainState | None = None) -> Tensor:
        for i, module in enumerate(self):
            if slots is None or state is None or not isinstance(module, Streaming):
                x = module(x)
            else:
                x = module(x, slots, state.states[i])
        return x


class StreamingBlock(Streaming):
    """A module around a chain that checkpoints name `block`."""

    block: StreamingChain

    def state(self, slots: int) -> ChainState:
        return self.block.state(slots)

    def forward(self, x: Tensor, slots: Tensor | None = None, state: ChainState | None = None) -> Tensor:
        return self.block(x, slots, state)
