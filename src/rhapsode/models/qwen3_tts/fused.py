"""The codec's decoder on a GPU: channels last, every activation in the epilogue of what computes its input."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from rhapsode.models.qwen3_tts.decoder import (
    CodecDecoder,
    ConvNeXt,
    DecoderState,
    ResidualQuantizer,
    ResidualUnit,
    UpsampleBlock,
)
from rhapsode.nn.kernels.gpu.codebooks import codebook_sum
from rhapsode.nn.kernels.gpu.conv import Snake, conv
from rhapsode.nn.kernels.gpu.narrow import depthwise_norm, to_samples
from rhapsode.nn.kernels.gpu.pack import bias_of, conv_weights, linear_weights, phase_weights, snake_weights, wide
from rhapsode.nn.kernels.gpu.tails import Part, Tails
from rhapsode.nn.kernels.gpu.transformer import FusedTransformer
from rhapsode.nn.kernels.gpu.unit import WIDEST, residual_unit
from rhapsode.nn.snake import SnakeBeta
from rhapsode.nn.streaming import CausalConv1d, CausalConvTranspose1d

_AT_ONCE = 512  # frames in one pass of the convolutions: their buffers take 3.2 MB a frame, and more is no faster
_POSITIONS = 64  # of the transformer at a time


class FusedDecoder:
    """Runs a `CodecDecoder`'s weights on its state; the plain modules are the reference."""

    def __init__(self, decoder: CodecDecoder) -> None:
        self._latents = _Latents(decoder)
        self._vocoder = _Vocoder(decoder, first=self._latents.kept)
        self._hop = decoder.config.hop
        self._positions = min(_POSITIONS, decoder.config.sliding_window)

    def latents(self, codes: Tensor, slots: Tensor, state: DecoderState) -> Tensor:
        """`codes [B, n, G]` to `[B, n, latent]`."""
        pieces = [self._latents(piece, slots, state) for piece in codes.split(self._positions, dim=1)]
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=1)

    def waveform(self, latents: Tensor, slots: Tensor, state: DecoderState) -> Tensor:
        """`latents [B, n, latent]` to `[B, 1, n * hop]` in float32, limited to [-1, 1]."""
        batch, frames, _ = latents.shape
        samples = torch.empty(batch, frames * self._hop, device=latents.device)
        rows = max(1, _AT_ONCE // frames)
        for part in range(0, batch, rows):
            some = slice(part, part + rows)
            self._vocoder(latents[some], slots[some], state.tails, samples[some])
        return samples[:, None]


class _Latents:
    def __init__(self, decoder: CodecDecoder) -> None:
        net = decoder.pre_transformer
        quantizer = decoder.quantizer
        self._tables = torch.cat([_projected(part) for part in (quantizer.rvq_first, quantizer.rvq_rest)])
        self._conv = conv_weights(decoder.pre_conv)
        self._tails = Tails([_part(decoder.pre_conv, 1)], 0, self._tables.device)
        self._into = linear_weights(net.input_proj)
        self._transformer = FusedTransformer(net)
        self._out = linear_weights(net.output_proj, net.norm.weight)
        self._eps = net.norm.eps
        self.kept = self._tails.kept

    def __call__(self, codes: Tensor, slots: Tensor, state: DecoderState) -> Tensor:
        batch, frames, _ = codes.shape
        buffers = self._tails.open(state.tails, slots, frames)
        vectors = buffers[0]
        codebook_sum(codes, self._tables, _new(vectors, frames))
        before = vectors.new_empty(batch, frames, self._conv.matrix.shape[0])
        x = vectors.new_empty(batch, frames, self._into.matrix.shape[0], dtype=torch.float32)
        latents = vectors.new_empty(batch, frames, self._out.matrix.shape[0])
        conv(vectors, self._conv, out=before)
        conv(before, self._into, out=x)
        self._transformer(x, slots, state.transformer)
        conv(x, self._out, norm_eps=self._eps, out=latents)
        self._tails.close(state.tails, slots, frames, buffers, state.transformer.position)
        return latents


class _ConvNeXt:
    def __init__(self, block: ConvNeXt) -> None:
        conv = block.dwconv.conv
        self._depthwise = wide(conv.weight[:, 0].T), bias_of(conv), wide(block.norm.weight), wide(block.norm.bias)
        self._eps = block.norm.eps
        self._first, self._second = linear_weights(block.pwconv1), linear_weights(block.pwconv2)
        self._gamma = wide(block.gamma)

    def __call__(self, x: Tensor, length: int, out: Tensor) -> None:
        """`x [B, tail + T, C]`."""
        mixed = x.new_empty(x.shape[0], length, x.shape[2])
        between = x.new_empty(x.shape[0], length, self._first.matrix.shape[0])
        depthwise_norm(x, *self._depthwise, self._eps, mixed)
        conv(mixed, self._first, function="gelu", out=between)
        conv(between, self._second, scale=self._gamma, residual=_new(x, length), out=out)


class _Unit:
    def __init__(self, module: ResidualUnit) -> None:
        self.before, self._middle = snake_weights(module.act1), snake_weights(module.act2)
        self._first, self._second = conv_weights(module.conv1), conv_weights(module.conv2)

    def __call__(self, seen: Tensor, x: Tensor, out: Tensor | None, act: Tensor, snake: Snake) -> None:
        """`seen [B, tail + T, C]` is `before` of the stream `x`; `snake` is what comes before the next one."""
        if x.shape[2] <= WIDEST:
            residual_unit(seen, self._first, self._middle, self._second, residual=x, out=out, act=act, snake=snake)
            return
        middle = torch.empty_like(x)
        conv(seen, self._first, act=middle, snake=self._middle)
        conv(middle, self._second, residual=x, out=out, act=act, snake=snake)


class _Block:
    def __init__(self, block: UpsampleBlock) -> None:
        before, up, *units = block.block
        assert isinstance(before, SnakeBeta)
        assert isinstance(up, CausalConvTranspose1d)
        self.before, self.up = snake_weights(before), phase_weights(up)
        self.units = [_Unit(unit) for unit in units if isinstance(unit, ResidualUnit)]


class _Vocoder:
    def __init__(self, decoder: CodecDecoder, first: int) -> None:
        begin, *blocks, last_act, last = decoder.decoder
        assert isinstance(begin, CausalConv1d)
        assert isinstance(last_act, SnakeBeta)
        assert isinstance(last, CausalConv1d)
        ups = [part for part in decoder.upsample.modules() if isinstance(part, CausalConvTranspose1d)]
        nexts = [part for part in decoder.upsample.modules() if isinstance(part, ConvNeXt)]
        self._ups = [(phase_weights(up), _ConvNeXt(block)) for up, block in zip(ups, nexts, strict=True)]
        self._begin = conv_weights(begin)
        self._blocks = [_Block(block) for block in blocks if isinstance(block, UpsampleBlock)]
        self._last_act, self._last = snake_weights(last_act), (wide(last.conv.weight[0].T), bias_of(last.conv))
        self._parts = list(_inputs(decoder))
        self._tails = Tails(self._parts, first, last.conv.weight.device)

    def __call__(self, latents: Tensor, slots: Tensor, tails: Tensor, samples: Tensor) -> None:
        frames = latents.shape[1]
        buffers = self._tails.open(tails, slots, frames)
        news = [_new(held, frames * part.per_frame) for held, part in zip(buffers, self._parts, strict=True)]
        inputs = iter(zip(buffers, news, strict=True))
        x = latents
        for i, (up, block) in enumerate(self._ups, start=1):
            seen, new = next(inputs)
            conv(x, up, out=new)
            x = news[i] if i == len(self._ups) else seen.new_empty(new.shape)
            block(seen, new.shape[1], x)
        self._upsample(inputs)
        to_samples(buffers[-1], *self._last, samples)
        self._tails.close(tails, slots, frames, buffers)

    def _upsample(self, inputs: Iterator[tuple[Tensor, Tensor]]) -> None:
        """From the input of the first convolution to that of the last; each is written by the kernel before it."""
        (seen, _), (held, new) = next(inputs), next(inputs)
        conv(seen, self._begin, act=new, snake=self._blocks[0].before)
        afters = [*(block.before for block in self._blocks[1:]), self._last_act]
        for block, after in zip(self._blocks, afters, strict=True):
            seen, (held, new) = held, next(inputs)
            x = seen.new_empty(new.shape)
            conv(seen, block.up, out=x, act=new, snake=block.units[0].before)
            for i, unit in enumerate(block.units, start=1):
                seen, (held, new) = held, next(inputs)
                if i < len(block.units):
                    unit(seen, x, x, new, block.units[i].before)
                else:
                    unit(seen, x, None, new, after)


def _inputs(decoder: CodecDecoder) -> Iterator[Part]:
    """What the convolutions after the transformer read, in the order of the state."""
    rate = 1
    for module in (*decoder.upsample.modules(), *decoder.decoder.modules()):
        if isinstance(module, CausalConv1d) and module.tail:
            yield _part(module, rate)
        elif isinstance(module, CausalConvTranspose1d):
            if module.taps > 1:
                yield Part(module.taps - 1, rate, module.conv.in_channels)
            rate *= module.stride


def _projected(part: ResidualQuantizer) -> Tensor:
    """Its tables with the projection after their sum already applied, `[books, K, codebook_dim]`."""
    projection = part.output_proj.weight.detach()[..., 0].float()
    return (part.tables.float() @ projection.T).to(part.tables.dtype)


def _part(module: CausalConv1d, per_frame: int) -> Part:
    return Part(module.tail, per_frame, module.conv.in_channels)


def _new(buffer: Tensor, length: int) -> Tensor:
    """Where in a buffer the new rows go."""
    return buffer[:, buffer.shape[1] - length :]
