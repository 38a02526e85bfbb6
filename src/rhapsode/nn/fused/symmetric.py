"""A vocoder of symmetric convolutions that runs on fused kernels. The modules of `nn.symmetric` are the reference."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from rhapsode.nn.fused.pack import bias_of, conv_weights, float32, snake_weights
from rhapsode.nn.fused.vocoder import MAX_FRAMES, PackedBlock, new_rows
from rhapsode.nn.kernels.gpu.conv import conv
from rhapsode.nn.kernels.gpu.tails import Tails, TailSpec
from rhapsode.nn.kernels.gpu.to_samples import to_samples
from rhapsode.nn.snake import Snake, SnakeBeta
from rhapsode.nn.symmetric import SymmetricState, SymmetricVocoder
from rhapsode.nn.vocoder import vocoder_parts


class FusedSymmetricVocoder:
    """Decodes the slots of a `SymmetricVocoder` with its weights packed. Call it after `derive`: it copies weights."""

    def __init__(self, net: SymmetricVocoder) -> None:
        begin, blocks, last_act, last = vocoder_parts(net.chain)
        assert isinstance(last_act, SnakeBeta | Snake)
        self._begin = conv_weights(begin)
        self._blocks = [PackedBlock(*block) for block in blocks]
        self._last_act, self._last = snake_weights(last_act), (float32(last.conv.weight[0].T), bias_of(last.conv))
        self._last_tail, self._lag, self._hop = last.tail, net.lag, net.hop
        self._specs = [TailSpec(tail.rows, tail.rate, tail.channels) for tail in net.tails()]
        self._tails = Tails(self._specs, 0, net.lag.device)

    def __call__(self, x: Tensor, present: Tensor, slots: Tensor, state: SymmetricState) -> Tensor:
        """Decodes `x [B, n, inputs]` to `[B, 1, n * hop]` in float32; see `SymmetricVocoder.forward`."""
        batch, frames, _ = x.shape
        bounds = state.advance(slots, present, self._lag)
        samples = torch.empty(batch, frames * self._hop, device=x.device)
        rows = max(1, MAX_FRAMES // frames)
        for start in range(0, batch, rows):
            some = slice(start, start + rows)
            self._decode(
                x[some] * present[some, :, None], bounds[:, some].contiguous(), slots[some], state.tails, samples[some]
            )
        return samples[:, None]

    def _decode(self, x: Tensor, bounds: Tensor, slots: Tensor, tails: Tensor, samples: Tensor) -> None:
        frames = x.shape[1]
        buffers = self._tails.open(tails, slots, frames)
        news = [new_rows(held, frames * spec.per_frame) for held, spec in zip(buffers, self._specs, strict=True)]
        news[0].copy_(x)
        self._upsample(iter(zip(buffers, news, strict=True)), iter(bounds[1:]))
        to_samples(buffers[-1][:, : samples.shape[1] + self._last_tail], *self._last, samples, clamp=False)
        self._tails.close(tails, slots, frames, buffers)

    def _upsample(self, inputs: Iterator[tuple[Tensor, Tensor]], bounds: Iterator[Tensor]) -> None:
        """Computes the last convolution's input from that of the first; each kernel writes the input of the next.

        In `inputs`, the input of a residual unit is followed by the rows that the unit's result is added to.
        """
        (held, _), (next_held, new) = next(inputs), next(inputs)
        conv(held, self._begin, act=new, snake=self._blocks[0].before, valid=next(bounds))
        afters = [*(block.before for block in self._blocks[1:]), self._last_act]
        for block, after in zip(self._blocks, afters, strict=True):
            held, (next_held, new), (residual, sums) = next_held, next(inputs), next(inputs)
            conv(held, block.up, out=sums, act=new, snake=block.units[0].before, valid=next(bounds))
            for unit, following in zip(block.units, [*block.units[1:], None], strict=True):
                held, late = next_held, residual[:, : sums.shape[1]]
                next_held, new = next(inputs)
                if following is None:
                    unit(held, late, None, new, after, next(bounds))
                else:
                    residual, sums = next(inputs)
                    unit(held, late, sums, new, following.before, next(bounds))
