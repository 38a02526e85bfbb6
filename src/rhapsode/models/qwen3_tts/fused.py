"""The codec's decoder by fused kernels: channels last, every activation in the epilogue of the kernel before it."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from rhapsode.models.qwen3_tts.decoder import (
    CodecDecoder,
    ConvNeXt,
    DecoderBlock,
    DecoderState,
    DecoderUnit,
    ResidualDequantizer,
)
from rhapsode.nn.fused.pack import bias_of, conv_weights, float32, linear_weights, phase_weights, snake_weights
from rhapsode.nn.fused.transformer import FusedTransformer, supports
from rhapsode.nn.kernels.gpu.codebooks import codebook_sum
from rhapsode.nn.kernels.gpu.conv import conv
from rhapsode.nn.kernels.gpu.depthwise_norm import depthwise_norm
from rhapsode.nn.kernels.gpu.residual_unit import MAX_CHANNELS, residual_unit
from rhapsode.nn.kernels.gpu.tails import Tails, TailSpec
from rhapsode.nn.kernels.gpu.to_samples import to_samples
from rhapsode.nn.kernels.snake import SnakeWeights
from rhapsode.nn.snake import SnakeBeta
from rhapsode.nn.streaming import CausalConv1d, CausalConvTranspose1d

_MAX_FRAMES = 512  # in one pass of the convolutions: a frame takes 3.2 MB of buffers, and more are no faster
_MAX_POSITIONS = 64  # in one pass of the transformer


def fuse(decoder: CodecDecoder) -> None:
    """Lets kernels decode slots, if they support this decoder. Call it after `derive`: it copies weights."""
    if decoder.pre_conv.conv.weight.dtype != torch.float64 and supports(decoder.pre_transformer):
        decoder.fused = FusedDecoder(decoder)


class FusedDecoder:
    """Decodes the slots of a `CodecDecoder` with its weights packed; the plain modules are the reference."""

    def __init__(self, decoder: CodecDecoder) -> None:
        self._latents = _Latents(decoder)
        self._vocoder = _Vocoder(decoder, first=self._latents.kept)
        self._hop = decoder.config.hop
        self._positions = min(_MAX_POSITIONS, decoder.config.sliding_window)

    def latents(self, codes: Tensor, slots: Tensor, state: DecoderState) -> Tensor:
        """Decodes `codes [B, n, G]` to `[B, n, latent]`."""
        pieces = [self._latents(piece, slots, state) for piece in codes.split(self._positions, dim=1)]
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=1)

    def waveform(self, latents: Tensor, slots: Tensor, state: DecoderState) -> Tensor:
        """Decodes `latents [B, n, latent]` to `[B, 1, n * hop]` in float32, clamped to [-1, 1]."""
        batch, frames, _ = latents.shape
        samples = torch.empty(batch, frames * self._hop, device=latents.device)
        rows = max(1, _MAX_FRAMES // frames)
        for start in range(0, batch, rows):
            some = slice(start, start + rows)
            self._vocoder(latents[some], slots[some], state.tails, samples[some])
        return samples[:, None]


class _Latents:
    """Codes to latents: codebooks, the first convolution and the transformer."""

    def __init__(self, decoder: CodecDecoder) -> None:
        net = decoder.pre_transformer
        quantizer = decoder.quantizer
        self._tables = torch.cat([_projected(books) for books in (quantizer.rvq_first, quantizer.rvq_rest)])
        self._conv = conv_weights(decoder.pre_conv)
        self._tails = Tails([_tail_of(decoder.pre_conv, 1)], 0, self._tables.device)
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
        """`x [B, tail + T, C]`."""
        mixed = x.new_empty(x.shape[0], length, x.shape[2])
        between = x.new_empty(x.shape[0], length, self._first.matrix.shape[0])
        depthwise_norm(x, *self._depthwise, self._eps, mixed)
        conv(mixed, self._first, function="gelu", out=between)
        conv(between, self._second, scale=self._gamma, residual=_new(x, length), out=out)


class _PackedUnit:
    def __init__(self, module: DecoderUnit) -> None:
        self.before, self._middle = snake_weights(module.act1), snake_weights(module.act2)
        self._first, self._second = conv_weights(module.conv1), conv_weights(module.conv2)

    def __call__(self, held: Tensor, x: Tensor, out: Tensor | None, act: Tensor, snake: SnakeWeights) -> None:
        """`held [B, tail + T, C]` is `before` of the residual stream `x`; `snake` is the next unit's `before`."""
        if x.shape[2] <= MAX_CHANNELS:
            residual_unit(held, self._first, self._middle, self._second, residual=x, out=out, act=act, snake=snake)
            return
        middle = torch.empty_like(x)
        conv(held, self._first, act=middle, snake=self._middle)
        conv(middle, self._second, residual=x, out=out, act=act, snake=snake)


class _PackedBlock:
    def __init__(self, block: DecoderBlock) -> None:
        before, up, *units = block.block
        assert isinstance(before, SnakeBeta)
        assert isinstance(up, CausalConvTranspose1d)
        self.before, self.up = snake_weights(before), phase_weights(up)
        self.units = [_PackedUnit(unit) for unit in units if isinstance(unit, DecoderUnit)]


class _Vocoder:
    """Latents to samples."""

    def __init__(self, decoder: CodecDecoder, first: int) -> None:
        begin, *blocks, last_act, last = decoder.decoder
        assert isinstance(begin, CausalConv1d)
        assert isinstance(last_act, SnakeBeta)
        assert isinstance(last, CausalConv1d)
        ups = [module for module in decoder.upsample.modules() if isinstance(module, CausalConvTranspose1d)]
        nexts = [module for module in decoder.upsample.modules() if isinstance(module, ConvNeXt)]
        self._ups = [(phase_weights(up), _PackedConvNeXt(block)) for up, block in zip(ups, nexts, strict=True)]
        self._begin = conv_weights(begin)
        self._blocks = [_PackedBlock(block) for block in blocks if isinstance(block, DecoderBlock)]
        self._last_act, self._last = snake_weights(last_act), (float32(last.conv.weight[0].T), bias_of(last.conv))
        self._specs = list(_tails_of(decoder))
        self._tails = Tails(self._specs, first, last.conv.weight.device)

    def __call__(self, latents: Tensor, slots: Tensor, tails: Tensor, samples: Tensor) -> None:
        frames = latents.shape[1]
        buffers = self._tails.open(tails, slots, frames)
        news = [_new(held, frames * spec.per_frame) for held, spec in zip(buffers, self._specs, strict=True)]
        inputs = iter(zip(buffers, news, strict=True))
        x = latents
        for i, (up, block) in enumerate(self._ups, start=1):
            held, new = next(inputs)
            conv(x, up, out=new)
            x = news[i] if i == len(self._ups) else held.new_empty(new.shape)
            block(held, new.shape[1], x)
        self._upsample(inputs)
        to_samples(buffers[-1], *self._last, samples)
        self._tails.close(tails, slots, frames, buffers)

    def _upsample(self, inputs: Iterator[tuple[Tensor, Tensor]]) -> None:
        """From the input of the first convolution to that of the last; each kernel writes the input of the next."""
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


def _tails_of(decoder: CodecDecoder) -> Iterator[TailSpec]:
    """Yields the tails of the convolutions after the transformer, in the order of the state."""
    rate = 1
    for module in (*decoder.upsample.modules(), *decoder.decoder.modules()):
        if isinstance(module, CausalConv1d) and module.tail:
            yield _tail_of(module, rate)
        elif isinstance(module, CausalConvTranspose1d):
            if module.taps > 1:
                yield TailSpec(module.taps - 1, rate, module.conv.in_channels)
            rate *= module.stride


def _projected(books: ResidualDequantizer) -> Tensor:
    """Returns the tables with the projection of their sum already applied, `[books, K, codebook_dim]`."""
    projection = books.output_proj.weight.detach()[..., 0].float()
    return (books.tables.float() @ projection.T).to(books.tables.dtype)


def _tail_of(module: CausalConv1d, per_frame: int) -> TailSpec:
    return TailSpec(module.tail, per_frame, module.conv.in_channels)


def _new(buffer: Tensor, length: int) -> Tensor:
    """Returns the view of a buffer behind its tail, where the new rows go."""
    return buffer[:, buffer.shape[1] - length :]
