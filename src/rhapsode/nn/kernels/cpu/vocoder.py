"""The convolutions of a vocoder in one call per row, with the activations between them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor

from rhapsode.nn.kernels.cpu.library import library
from rhapsode.nn.kernels.cpu.second_thread import SecondThread
from rhapsode.nn.kernels.cpu.weights import Addresses, integer, pointer
from rhapsode.nn.kernels.snake import SnakeWeights

AT_ONCE = 16
"""Inputs of a vocoder that its first convolutions take at once."""
PIECE = 4
"""Inputs of a vocoder that are computed at a time; in chunks of no more, half as many."""


@dataclass(frozen=True)
class ConvolutionStep:
    """One causal convolution of a vocoder, with the activation before it and its part in a residual connection.

    `weight` is [outputs, inputs, taps].
    """

    weight: Tensor
    bias: Tensor | None
    tail: int
    """Where a slot's last inputs are in its row of tails."""
    dilation: int = 1
    repeat: int = 1
    """Samples per input. The outputs are those of all samples: sample by sample, channels last."""
    snake: SnakeWeights | None = None
    keeps: bool = False
    """The input is added to the result of the next step that `adds`."""
    adds: bool = False


class _Convolution(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("weight", "bias", "frequency", "size")),
        *((name, ctypes.c_int64) for name in ("inputs", "outputs", "taps", "dilation", "repeat", "tail")),
        *((name, ctypes.c_int64) for name in ("keeps", "adds")),
    )


class VocoderProgram:
    """A vocoder whose weights are packed for this machine. All tensors are float32 on the CPU.

    The first convolutions have large weights and few inputs, so they take many inputs at once, and read the weights
    once. The others are two halves of about equal work, which take pieces: while this thread computes the first half of
    a piece, another thread computes the second half of the piece before it.
    """

    def __init__(self, steps: Sequence[ConvolutionStep]) -> None:
        head = _head(steps)
        middle = _middle(steps, head)
        self._head = ConvolutionChain(steps[:head])
        self._halves = ConvolutionChain(steps[head:middle]), ConvolutionChain(steps[middle:])

    def run(self, x: Tensor, slots: Tensor, tails: Tensor) -> Tensor:
        """Continues slots with `x [B, T, inputs]`: `[B, samples, outputs]`. `tails` has a row per slot."""
        first, second = self._halves
        x = x.contiguous()
        rate, size = first.rate * second.rate, self._head.rate * (PIECE if x.shape[1] > PIECE else PIECE // 2)
        made = torch.empty(len(slots), x.shape[1] * self._head.rate * rate, second.outputs)
        with SecondThread() as other:
            for row, slot in enumerate(slots.tolist()):
                tail = tails[slot]
                outs = iter(made[row].split(size * rate))
                for some in x[row].split(AT_ONCE):
                    for piece in self._head(some, tail).split(size):
                        other.do(second.run, first(piece, tail), tail, next(outs))
        return made


class ConvolutionChain:
    """Consecutive steps whose weights are packed, with the memory they work in: for one thread at a time."""

    def __init__(self, steps: Sequence[ConvolutionStep]) -> None:
        kernels, self._addresses = library(), Addresses()
        assert kernels is not None
        self._run, width = kernels.run_vocoder, kernels.panel_width()
        self._steps = steps
        self._convolutions = (_Convolution * len(steps))(*(_packed(step, width, self._addresses) for step in steps))
        self._space = torch.empty(0)
        self.rate = prod(step.repeat for step in steps)
        self.outputs = steps[-1].weight.shape[0] // steps[-1].repeat

    def run(self, x: Tensor, tail: Tensor, out: Tensor) -> None:
        """Continues one slot with `x [T, inputs]`; all tensors are contiguous."""
        part = self._part(len(x))
        if self._space.numel() < 3 * part:
            self._space = torch.empty(3 * part)
        given = (pointer(x), integer(len(x)), pointer(tail), pointer(self._space), integer(part), pointer(out))
        self._run(self._convolutions, integer(len(self._steps)), *given)

    def __call__(self, x: Tensor, tail: Tensor) -> Tensor:
        """The same, into a new tensor `[samples, outputs]`."""
        made = torch.empty(len(x) * self.rate, self.outputs)
        self.run(x, tail, made)
        return made

    def _part(self, samples: int) -> int:
        """Returns how many floats the largest input or output of all steps has: the size of each working buffer."""
        part = 0
        for step in self._steps:
            outputs, inputs, taps = step.weight.shape
            part = max(part, (samples + (taps - 1) * step.dilation) * inputs, samples * outputs)
            samples *= step.repeat
        return part


def _head(steps: Sequence[ConvolutionStep]) -> int:
    """Returns how many steps come before the first one that has several inputs for each input of the vocoder."""
    return next((i + 1 for i, step in enumerate(steps) if step.repeat > 1), 0)


def _middle(steps: Sequence[ConvolutionStep], head: int) -> int:
    """Returns how many steps are the first half of the work, without cutting a residual unit."""
    work, rate, kept = [0], 1, False
    cuts = []
    for i, step in enumerate(steps):
        work.append(work[-1] + step.weight.numel() * rate)
        rate *= step.repeat
        kept = (kept or step.keeps) and not step.adds
        if not kept and head < i + 1 < len(steps):
            cuts.append(i + 1)
    return min(cuts, key=lambda cut: abs(2 * work[cut] - work[-1]))


def _packed(step: ConvolutionStep, width: int, addresses: Addresses) -> _Convolution:
    outputs, inputs, taps = step.weight.shape
    spare = -outputs % width
    panels = F.pad(step.weight.detach(), (0, 0, 0, 0, 0, spare)).view(-1, width, inputs, taps).permute(0, 3, 2, 1)
    bias = torch.zeros(outputs) if step.bias is None else step.bias.detach()
    frequency, size = step.snake or (None, None)
    return _Convolution(
        *(addresses.of(tensor) for tensor in (panels, F.pad(bias, (0, spare)), frequency, size)),
        *(inputs, outputs, taps, step.dilation, step.repeat, step.tail, step.keeps, step.adds),
    )
