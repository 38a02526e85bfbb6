"""Upsampler and vocoder of a codec on fused kernels: channels last, every activation in the epilogue of the kernel
before it. The modules of `nn.vocoder` are the reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rhapsode.nn.fused.pack import bias_of, conv_weights, float32, linear_weights, phase_weights, snake_weights
from rhapsode.nn.kernels.gpu.conv import conv
from rhapsode.nn.kernels.gpu.depthwise_norm import depthwise_norm
from rhapsode.nn.kernels.gpu.residual_unit import MAX_CHANNELS, residual_unit
from rhapsode.nn.kernels.gpu.tails import Tails, TailSpec
from rhapsode.nn.kernels.gpu.to_samples import to_samples
from rhapsode.nn.kernels.snake import SnakeWeights
from rhapsode.nn.snake import Snake, SnakeBeta
from rhapsode.nn.streaming import CausalConv1d, CausalConvTranspose1d, StreamingChain
from rhapsode.nn.vocoder import ConvNeXt, ResidualUnit, vocoder_parts

MAX_FRAMES = 512
"""The most frames in one pass: a frame takes 3 MB of buffers, and larger passes are no faster."""


class _PackedConvNeXt:
    def __init__(self, block: ConvNeXt) -> None:
        conv = block.dwconv.conv
        self._depthwise = (
            float32(conv.weight[:, 0].T),
            bias_of(conv),
            float32(block.norm.weight),
            float32(block.norm.bias),
        )
        self._eps = block.norm.eps
        self._first, self._second = linear_weights(block.pwconv1), linear_weights(block.pwconv2)
        self._gamma = float32(block.gamma)

    def __call__(self, x: Tensor, length: int, out: Tensor) -> None:
        """Applies the block to `x [B, tail + T, C]`, of which `length` rows (T) are new, and writes `out [B, T, C]`."""
        mixed = x.new_empty(x.shape[0], length, x.shape[2])
        between = x.new_empty(x.shape[0], length, self._first.matrix.shape[0])
        depthwise_norm(x, *self._depthwise, self._eps, mixed)
        conv(mixed, self._first, function="gelu", out=between)
        conv(between, self._second, scale=self._gamma, residual=new_rows(x, length), out=out)


class PackedUnit:
    """A residual unit, packed."""

    def __init__(self, module: ResidualUnit) -> None:
        assert isinstance(module.act1, SnakeBeta | Snake)
        assert isinstance(module.act2, SnakeBeta | Snake)
        self.before, self._middle = snake_weights(module.act1), snake_weights(module.act2)
        self._first, self._second = conv_weights(module.conv1), conv_weights(module.conv2)

    def __call__(
        self,
        held: Tensor,
        x: Tensor,
        out: Tensor | None,
        act: Tensor,
        snake: SnakeWeights,
        valid: Tensor | None = None,
    ) -> None:
        """Adds the unit's result to the residual `x`; writes the sum to `out`, if given, and its `snake` to `act`.

        `held [B, tail + T, C]` is `x` after the activation `before`, and `snake` is the `before` of the next unit. Rows
        of `act` outside `valid [B, 2]` are zeros.
        """
        after: Any = {"residual": x, "out": out, "act": act, "snake": snake, "valid": valid}
        if x.shape[2] <= MAX_CHANNELS:
            residual_unit(held, self._first, self._middle, self._second, **after)
            return
        middle = torch.empty_like(x)
        conv(held, self._first, act=middle, snake=self._middle)
        conv(middle, self._second, **after)


class PackedBlock:
    """An upsampling block, packed."""

    def __init__(self, before: nn.Module, up: CausalConvTranspose1d, units: Sequence[ResidualUnit]) -> None:
        assert isinstance(before, SnakeBeta | Snake)
        self.before, self.up = snake_weights(before), phase_weights(up)
        self.units = [PackedUnit(unit) for unit in units]


class FusedVocoder:
    """Decodes `[B, n, latent]` to samples in float32, with the weights of `upsample` and `vocoder` packed.

    The tails of both begin at column `first` of the state, as `join_tails` puts them. Call it after `derive`: it copies
    weights.
    """

    def __init__(self, upsample: StreamingChain, vocoder: StreamingChain, first: int, tanh: bool = False) -> None:
        """`tanh` limits samples to [-1, 1]; without it they are clamped."""
        begin, blocks, last_act, last = vocoder_parts(vocoder)
        assert isinstance(last_act, SnakeBeta | Snake)
        ups = [module for module in upsample.modules() if isinstance(module, CausalConvTranspose1d)]
        nexts = [module for module in upsample.modules() if isinstance(module, ConvNeXt)]
        self._ups = [(phase_weights(up), _PackedConvNeXt(block)) for up, block in zip(ups, nexts, strict=True)]
        self._begin = conv_weights(begin)
        self._blocks = [PackedBlock(*block) for block in blocks]
        self._last_act, self._last = snake_weights(last_act), (float32(last.conv.weight[0].T), bias_of(last.conv))
        self._tanh = tanh
        self._specs, self._hop = tail_specs(upsample, vocoder)
        self._tails = Tails(self._specs, first, last.conv.weight.device)

    def __call__(self, latents: Tensor, slots: Tensor, tails: Tensor) -> Tensor:
        """Returns `[B, 1, n * hop]`, and advances the tails `[slots + 1, all tails]`."""
        batch, frames, _ = latents.shape
        samples = torch.empty(batch, frames * self._hop, device=latents.device)
        rows = max(1, MAX_FRAMES // frames)
        for start in range(0, batch, rows):
            some = slice(start, start + rows)
            self._decode(latents[some], slots[some], tails, samples[some])
        return samples[:, None]

    def _decode(self, latents: Tensor, slots: Tensor, tails: Tensor, samples: Tensor) -> None:
        frames = latents.shape[1]
        buffers = self._tails.open(tails, slots, frames)
        news = [new_rows(held, frames * spec.per_frame) for held, spec in zip(buffers, self._specs, strict=True)]
        inputs = iter(zip(buffers, news, strict=True))
        x = latents
        for i, (up, block) in enumerate(self._ups, start=1):
            held, new = next(inputs)
            conv(x, up, out=new)
            x = news[i] if i == len(self._ups) else held.new_empty(new.shape)
            block(held, new.shape[1], x)
        self._upsample(inputs)
        to_samples(buffers[-1], *self._last, samples, tanh=self._tanh)
        self._tails.close(tails, slots, frames, buffers)

    def _upsample(self, inputs: Iterator[tuple[Tensor, Tensor]]) -> None:
        """Computes the last convolution's input from that of the first; each kernel writes the input of the next."""
        (held, _), (next_held, new) = next(inputs), next(inputs)
        conv(held, self._begin, act=new, snake=self._blocks[0].before)
        afters = [*(block.before for block in self._blocks[1:]), self._last_act]
        for block, after in zip(self._blocks, afters, strict=True):
            held, (next_held, new) = next_held, next(inputs)
            x = held.new_empty(new.shape)
            conv(held, block.up, out=x, act=new, snake=block.units[0].before)
            for i, unit in enumerate(block.units, start=1):
                held, (next_held, new) = next_held, next(inputs)
                if i < len(block.units):
                    unit(held, x, x, new, block.units[i].before)
                else:
                    unit(held, x, None, new, after)


def tail_specs(*chains: StreamingChain) -> tuple[list[TailSpec], int]:
    """Returns the tails of these chains in the order of the state, and the samples per frame."""
    specs: list[TailSpec] = []
    rate = 1
    for module in (module for chain in chains for module in chain.modules()):
        if isinstance(module, CausalConv1d) and module.tail:
            specs.append(TailSpec(module.tail, rate, module.conv.in_channels))
        elif isinstance(module, CausalConvTranspose1d):
            if module.taps > 1:
                specs.append(TailSpec(module.taps - 1, rate, module.conv.in_channels))
            rate *= module.stride
    return specs, rate


def new_rows(buffer: Tensor, length: int) -> Tensor:
    """Returns a view of the last `length` rows of a buffer: the new rows, which follow the tail."""
    return buffer[:, buffer.shape[1] - length :]
