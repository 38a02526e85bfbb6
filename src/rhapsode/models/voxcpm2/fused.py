"""The VAE's decoder by fused kernels: channels last, every activation in the epilogue of the kernel before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rhapsode.models.voxcpm2.vae import RateCondition, VaeDecoder, VaeState, VaeUnit, VaeUpsampleBlock
from rhapsode.nn.fused.pack import bias_of, conv_weights, float32, phase_weights, snake_weights
from rhapsode.nn.fused.vocoder import new_rows, tail_specs
from rhapsode.nn.kernels.gpu.conv import Affine, ConvWeights, conv
from rhapsode.nn.kernels.gpu.depthwise import depthwise
from rhapsode.nn.kernels.gpu.tails import Tails
from rhapsode.nn.kernels.gpu.to_samples import to_samples
from rhapsode.nn.kernels.snake import SnakeWeights
from rhapsode.nn.snake import Snake
from rhapsode.nn.streaming import CausalConv1d, CausalConvTranspose1d

Inputs = Iterator[tuple[Tensor, Tensor]]
"""The input buffers of convolutions that keep a tail, in order: each with its tail, and the view of its new rows."""


def fuse(decoder: VaeDecoder, dtype: torch.dtype) -> None:
    """Lets kernels decode slots, if they support this decoder; products use `dtype`.

    Call it after `derive`: it copies weights.
    """
    if decoder.config.depthwise:
        decoder.fused = FusedVae(decoder, dtype)


class PackedActivation(NamedTuple):
    """The activation that is applied to the input of a convolution."""

    snake: SnakeWeights
    affine: Affine | None = None


class PackedDepthwise:
    """A depthwise convolution and the snake after it, if there is one."""

    def __init__(self, module: nn.Module, after: nn.Module | None = None) -> None:
        assert isinstance(module, CausalConv1d)
        weight = module.conv.weight
        self._weights = (float32(weight[:, 0].T), bias_of(module.conv))
        self._dilation = module.conv.dilation[0]
        self._snake = snake_weights(after) if isinstance(after, Snake) else None

    def __call__(self, held: Tensor, length: int) -> Tensor:
        out = held.new_empty(held.shape[0], length, held.shape[2])
        depthwise(held, *self._weights, out, self._dilation, self._snake)
        return out


class PackedVaeUnit:
    """A residual unit, packed."""

    def __init__(self, unit: VaeUnit, dtype: torch.dtype) -> None:
        before, mixing, between, pointwise = unit.block
        assert isinstance(before, Snake)
        assert isinstance(pointwise, CausalConv1d)
        self.before = PackedActivation(snake_weights(before))
        self._first, self._second = PackedDepthwise(mixing, between), _in(dtype, conv_weights(pointwise))

    def __call__(self, held: Tensor, x: Tensor, out: Tensor | None, act: Tensor, after: PackedActivation) -> None:
        """`held [B, tail + T, C]` is the residual stream `x` after `before`. The result goes to `out`; after the
        activation `after`, it goes to `act`."""
        middle = self._first(held, x.shape[1])
        conv(middle, self._second, residual=x, out=out, act=act, snake=after.snake, affine=after.affine)


class PackedVaeBlock:
    """An upsampling block, packed."""

    def __init__(self, block: VaeUpsampleBlock, dtype: torch.dtype) -> None:
        before, up, *units = block.block
        assert isinstance(before, Snake)
        assert isinstance(up, CausalConvTranspose1d)
        self.before = PackedActivation(snake_weights(before), _affine(block.condition))
        self._up = _in(dtype, phase_weights(up))
        self._units = [PackedVaeUnit(unit, dtype) for unit in units if isinstance(unit, VaeUnit)]

    def __call__(self, held: Tensor, inputs: Inputs, after: PackedActivation) -> Tensor:
        """Returns the input of the next block, whose activation is `after`; `held` is the input of this block."""
        following = [*(unit.before for unit in self._units[1:]), after]
        held_next, new = next(inputs)
        x = new.new_empty(new.shape, dtype=torch.float32)
        conv(held, self._up, out=x, act=new, snake=self._units[0].before.snake)
        for i, (unit, then) in enumerate(zip(self._units, following, strict=True), start=1):
            held, (held_next, new) = held_next, next(inputs)
            unit(held, x, x if i < len(self._units) else None, new, then)
        return held_next


class FusedVae:
    """Decodes the slots of a `VaeDecoder` with its weights packed; the plain modules are the reference."""

    def __init__(self, decoder: VaeDecoder, dtype: torch.dtype) -> None:
        begin, widen, *blocks, last_act, last, _ = decoder.model
        assert isinstance(widen, CausalConv1d)
        assert isinstance(last_act, Snake)
        assert isinstance(last, CausalConv1d)
        self.dtype = dtype
        self._begin, self._widen = PackedDepthwise(begin), _in(dtype, conv_weights(widen))
        self._blocks = [PackedVaeBlock(block, dtype) for block in blocks if isinstance(block, VaeUpsampleBlock)]
        self._last_act = PackedActivation(snake_weights(last_act))
        self._last = (float32(last.conv.weight[0].T), bias_of(last.conv))
        self._specs, self._hop = tail_specs(decoder.model)
        self._tails = Tails(self._specs, 0, last.conv.weight.device)

    def __call__(self, latents: Tensor, slots: Tensor, state: VaeState) -> Tensor:
        """Decodes `latents [B, n, latent]` to `[B, 1, n * hop]` in float32."""
        batch, frames, _ = latents.shape
        buffers = self._tails.open(state.tails, slots, frames)
        news = [new_rows(held, frames * spec.per_frame) for held, spec in zip(buffers, self._specs, strict=True)]
        inputs = iter(zip(buffers, news, strict=True))
        held, new = next(inputs)
        new.copy_(latents)
        mixed = self._begin(held, frames)
        held, new = next(inputs)
        afters = [*(block.before for block in self._blocks), self._last_act]
        conv(mixed, self._widen, act=new, snake=afters[0].snake, affine=afters[0].affine)
        for block, after in zip(self._blocks, afters[1:], strict=True):
            held = block(held, inputs, after)
        samples = torch.empty(batch, frames * self._hop, device=latents.device)
        to_samples(held, *self._last, samples, tanh=True)
        self._tails.close(state.tails, slots, frames, buffers)
        return samples[:, None]


def _affine(condition: nn.Module) -> Affine | None:
    if not isinstance(condition, RateCondition):
        return None
    return Affine(float32(condition.scale[:, 0]), float32(condition.bias[:, 0]))


def _in(dtype: torch.dtype, weights: ConvWeights) -> ConvWeights:
    return replace(weights, matrix=weights.matrix.to(dtype))
