"""The codec's decoder by fused kernels: channels last, every activation in the epilogue of the kernel before it."""

from __future__ import annotations

import torch
from torch import Tensor

from rhapsode.models.qwen3_tts.decoder import CodecDecoder, DecoderState, ResidualDequantizer
from rhapsode.nn.fused.pack import conv_weights, linear_weights
from rhapsode.nn.fused.transformer import FusedTransformer, supports
from rhapsode.nn.fused.vocoder import FusedVocoder, new_rows
from rhapsode.nn.kernels.gpu.codebooks import codebook_sum
from rhapsode.nn.kernels.gpu.conv import conv
from rhapsode.nn.kernels.gpu.tails import Tails, TailSpec

_MAX_POSITIONS = 64  # in one pass of the transformer


def fuse(decoder: CodecDecoder) -> None:
    """Lets kernels decode slots, if they support this decoder. Call it after `derive`: it copies weights."""
    if decoder.pre_conv.conv.weight.dtype != torch.float64 and supports(decoder.pre_transformer):
        decoder.fused = FusedDecoder(decoder)


class FusedDecoder:
    """Decodes the slots of a `CodecDecoder` with its weights packed; the plain modules are the reference."""

    def __init__(self, decoder: CodecDecoder) -> None:
        self._latents = _Latents(decoder)
        self._vocoder = FusedVocoder(decoder.upsample, decoder.decoder, first=self._latents.kept)
        self._positions = min(_MAX_POSITIONS, decoder.config.sliding_window)

    def latents(self, codes: Tensor, slots: Tensor, state: DecoderState) -> Tensor:
        """Decodes `codes [B, n, G]` to `[B, n, latent]`."""
        pieces = [self._latents(piece, slots, state) for piece in codes.split(self._positions, dim=1)]
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=1)

    def waveform(self, latents: Tensor, slots: Tensor, state: DecoderState) -> Tensor:
        """Decodes `latents [B, n, latent]` to `[B, 1, n * hop]` in float32, clamped to [-1, 1]."""
        return self._vocoder(latents, slots, state.tails)


class _Latents:
    """Decodes codes to latents: codebooks, the first convolution and the transformer."""

    def __init__(self, decoder: CodecDecoder) -> None:
        net = decoder.pre_transformer
        quantizer = decoder.quantizer
        self._tables = torch.cat([_projected(books) for books in (quantizer.rvq_first, quantizer.rvq_rest)])
        pre_conv = decoder.pre_conv
        self._conv = conv_weights(pre_conv)
        self._tails = Tails([TailSpec(pre_conv.tail, 1, pre_conv.conv.in_channels)], 0, self._tables.device)
        self._into = linear_weights(net.input_proj)
        self._transformer = FusedTransformer(net)
        self._out = linear_weights(net.output_proj, net.norm.weight)
        self._eps = net.norm.eps
        self.kept = self._tails.kept

    def __call__(self, codes: Tensor, slots: Tensor, state: DecoderState) -> Tensor:
        batch, frames, _ = codes.shape
        buffers = self._tails.open(state.tails, slots, frames)
        vectors = buffers[0]
        codebook_sum(codes, self._tables, new_rows(vectors, frames))
        before = vectors.new_empty(batch, frames, self._conv.matrix.shape[0])
        x = vectors.new_empty(batch, frames, self._into.matrix.shape[0], dtype=torch.float32)
        latents = vectors.new_empty(batch, frames, self._out.matrix.shape[0])
        conv(vectors, self._conv, out=before)
        conv(before, self._into, out=x)
        self._transformer(x, slots, state.transformer)
        conv(x, self._out, norm_eps=self._eps, out=latents)
        self._tails.close(state.tails, slots, frames, buffers, state.transformer.position)
        return latents


def _projected(books: ResidualDequantizer) -> Tensor:
    """Returns the tables with the projection of their sum already applied, `[books, K, codebook_dim]`."""
    projection = books.output_proj.weight.detach()[..., 0].float()
    return (books.tables.float() @ projection.T).to(books.tables.dtype)
