"""Runs the upsampling network of a causal HiFT vocoder by fused kernels.

Tensors have channels last, and activations are in the epilogues of convolutions.
`HiftNet` is the reference. Convolutions take float16, which has as many digits as the TF32 that cuDNN uses; sums and
the residual streams are float32.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from rhapsode.nn.fused.pack import float32, snake_weights
from rhapsode.nn.fused.vocoder import MAX_FRAMES
from rhapsode.nn.hift.block import HiftBlock
from rhapsode.nn.hift.conv import AheadConv
from rhapsode.nn.hift.net import HiftNet, HiftState
from rhapsode.nn.kernels.gpu.branches import MOST_BRANCHES, snaked_sum, upsampled_mean
from rhapsode.nn.kernels.gpu.conv import ConvWeights, conv
from rhapsode.nn.kernels.gpu.tails import Tails, TailSpec
from rhapsode.nn.snake import Snake

POST_SLOPE = 0.01
"""The slope of the leaky ReLU before the last convolution."""
Inputs = Iterator[tuple[Tensor, Tensor]]
"""The input buffers of the convolutions, in order: each with its tail, and the view of its new rows."""


def fuse(net: HiftNet, dtype: torch.dtype) -> None:
    """Lets kernels run the upsampling network, if they support it; convolutions use `dtype`."""
    if len(net.settings.resblock_kernel_sizes) <= MOST_BRANCHES:
        net.fused = FusedHift(net, dtype)


def _weights(conv: nn.Module, dtype: torch.dtype, stride: int = 1) -> ConvWeights:
    """Packs a convolution; one with a stride reads rows of `stride` columns."""
    weight, bias = conv.weight, conv.bias
    assert isinstance(weight, Tensor)
    assert isinstance(bias, Tensor)
    matrix = weight.detach().transpose(1, 2).flatten(1).to(dtype).contiguous()  # [N, kernel * C]
    dilation = conv.dilation if isinstance(conv, AheadConv) else 1
    return ConvWeights(matrix, float32(bias), weight.shape[2] // stride, dilation)


class PackedHiftBlock:
    """The pairs of convolutions of a `HiftBlock`, packed for the kernels."""

    def __init__(self, block: nn.Module, dtype: torch.dtype) -> None:
        assert isinstance(block, HiftBlock)
        pairs = zip(block.convs1, block.convs2, strict=True)
        self._convs = [(_weights(first, dtype), _weights(second, dtype)) for first, second in pairs]
        self._before = [snake_weights(snake) for snake in block.activations1 if isinstance(snake, Snake)]
        self._between = [snake_weights(snake) for snake in block.activations2 if isinstance(snake, Snake)]
        self.before = self._before[0]
        self.channels = len(self._convs[0][0].matrix)

    def specs(self, per_frame: int, ahead: int) -> list[TailSpec]:
        convs = [conv for pair in self._convs for conv in pair]
        return [TailSpec((conv.taps - 1) * conv.dilation, per_frame, self.channels, ahead) for conv in convs]

    def __call__(self, x: Tensor, held: Tensor, inputs: Inputs) -> Tensor:
        """Returns `x [B, T, C]` plus the block's output; `held` is `x` after the activation `before`, with its tail."""
        result = torch.empty_like(x)
        for i, ((first, second), between) in enumerate(zip(self._convs, self._between, strict=True), start=1):
            held_between, new = next(inputs)
            conv(held, first, act=new, snake=between)
            if i == len(self._convs):
                conv(held_between, second, residual=x, out=result)
            else:
                held, new = next(inputs)
                conv(held_between, second, residual=x, out=result, act=new, snake=self._before[i])
            x = result
        return result


class PackedHiftStage:
    """Upsampling, the source and the residual blocks of one rate, packed."""

    def __init__(self, net: HiftNet, index: int, dtype: torch.dtype) -> None:
        settings = net.settings
        self.rate, self._stride = settings.upsample_rates[index], settings.source_strides[index]
        self.is_last = index == len(settings.upsample_rates) - 1
        self._first = settings.source_strides[0] - self._stride  # the first column of the source that is read
        self._up = _weights(net.ups[index], dtype)
        self._down = _weights(net.source_downs[index], dtype, self._stride)
        self._source = PackedHiftBlock(net.source_resblocks[index], dtype)
        self._blocks = [PackedHiftBlock(block, dtype) for block in net.blocks_of(index)]

    def specs(self, per_frame: int) -> list[TailSpec]:
        """`per_frame`: columns of the stage per frame."""
        channels = 2 * self._source.channels
        up, ahead = TailSpec(self._up.taps - 1, per_frame, channels, 1), 2 if self.is_last else 1
        return [up, *(spec for block in (self._source, *self._blocks) for spec in block.specs(per_frame, ahead))]

    def __call__(self, held: Tensor, source: Tensor, slots: Tensor, state: HiftState, inputs: Inputs) -> list[Tensor]:
        """Returns the result of each block, `[B, T, C]`; `held` is the input of the upsampling, with its tail."""
        up = self._upsample(held, slots, state)
        summed = torch.empty_like(up)
        added = self._from_source(source, up, inputs)
        made: list[Tensor] = []
        for block in self._blocks:
            held, new = next(inputs)
            if made:
                snaked_sum(summed, block.before, new)
            else:
                snaked_sum(up, block.before, new, added, summed)
            made.append(block(summed, held, inputs))
        return made

    def _upsample(self, held: Tensor, slots: Tensor, state: HiftState) -> Tensor:
        """Upsamples. The last stage shifts all columns by one: its first is from the chunk before, or reflected."""
        length, channels = held.shape[1] - self._up.taps + 1, self._source.channels
        out = held.new_empty(len(held), length + int(self.is_last), channels, dtype=torch.float32)
        conv(held, self._up, out=out[:, int(self.is_last) :])
        if self.is_last:
            before = state.shifted.tail[slots]  # [B, 1, C]
            out[:, :1] = torch.where((state.frames[slots] == 0)[:, None, None], out[:, 2:3], before)
            state.shifted.tail[slots] = out[:, length - 1 : length]
        return out

    def _from_source(self, source: Tensor, like: Tensor, inputs: Inputs) -> Tensor:
        """Returns the contribution of the source, `[B, T, C]`."""
        batch, _, bins = source.shape
        rows = like.shape[1] + self._down.taps - 1
        shape, strides = (batch, rows, self._stride * bins), (source.stride(0), self._stride * bins, 1)
        windows = source[:, self._first :].as_strided(shape, strides)
        x = torch.empty_like(like)
        held, new = next(inputs)
        conv(windows, self._down, out=x, act=new, snake=self._source.before)
        return self._source(x, held, inputs)


class FusedHift:
    """Computes the spectrum's columns from those of the first convolution, with all weights packed."""

    def __init__(self, net: HiftNet, dtype: torch.dtype) -> None:
        settings = net.settings
        self.dtype, self._slope = dtype, settings.lrelu_slope
        self._stages = [PackedHiftStage(net, i, dtype) for i in range(len(settings.upsample_rates))]
        self._post = _weights(net.conv_post, dtype)
        per_frame, self._specs = 1, list[TailSpec]()
        for stage in self._stages:
            per_frame *= stage.rate
            self._specs += stage.specs(per_frame)
        self._specs.append(TailSpec(self._post.taps - 1, per_frame, net.conv_post.weight.shape[1], 2))
        self._tails = Tails(self._specs, 0, net.conv_post.weight.device)
        self.kept = self._tails.kept

    def __call__(self, x: Tensor, source: Tensor, slots: Tensor, state: HiftState) -> Tensor:
        """Maps `x [B, base, due + 1]` and the source's columns `[B, bins, ..]` to columns `[B, bins, due * .. + 2]`."""
        rows, source = x.transpose(1, 2).contiguous(), source.transpose(1, 2).contiguous()
        most = max(1, MAX_FRAMES // (x.shape[2] - 1))
        pieces = zip(rows.split(most), source.split(most), slots.split(most), strict=True)
        made = [self._run(*piece, state) for piece in pieces]
        return (made[0] if len(made) == 1 else torch.cat(made)).transpose(1, 2)

    def _run(self, x: Tensor, source: Tensor, slots: Tensor, state: HiftState) -> Tensor:
        frames = x.shape[1] - 1
        buffers = self._tails.open(state.tails, slots, frames)
        sized = zip(buffers, self._specs, strict=True)
        inputs = ((held, held[:, spec.tail :]) for held, spec in sized)
        made = [x]
        for stage in self._stages:
            held, new = next(inputs)
            upsampled_mean(made, new, stage.rate, self._slope)
            made = stage(held, source, slots, state, inputs)
        held, new = next(inputs)
        upsampled_mean(made, new, 1, POST_SLOPE)
        columns = torch.empty(len(x), new.shape[1], len(self._post.matrix), device=x.device)
        conv(held, self._post, out=columns)
        self._tails.close(state.tails, slots, frames, buffers)
        return columns
