"""The codec's decoder by fused kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from rhapsode.models.fish_s2_pro.codec_config import FRAME_WINDOW
from rhapsode.models.fish_s2_pro.decoder import FishCodecDecoder, FishDecoderState
from rhapsode.nn.fused.pack import float32
from rhapsode.nn.fused.transformer import FusedTransformer, supports
from rhapsode.nn.fused.vocoder import FusedVocoder
from rhapsode.nn.kernels.norm import rms_norm

MAX_POSITIONS = 64
"""The most positions in one pass of the transformer."""


def fuse(decoder: FishCodecDecoder) -> None:
    """Lets kernels decode slots, if they support this decoder. Call it after `derive`: it copies weights."""
    if decoder.quantizer.tables.dtype != torch.float64 and supports(decoder.quantizer.post_module):
        decoder.fused = FishFusedDecoder(decoder)


class FishFusedDecoder:
    """Decodes the slots of a `FishCodecDecoder` with its weights packed; the plain modules are the reference."""

    def __init__(self, decoder: FishCodecDecoder) -> None:
        quantizer = decoder.quantizer
        self._dequantize = quantizer
        self._transformer = FusedTransformer(quantizer.post_module)
        self._norm = float32(quantizer.post_module.norm.weight)
        self._eps = quantizer.post_module.norm.eps
        self._vocoder = FusedVocoder(quantizer.upsample, decoder.decoder.model, first=0, tanh=True)

    def __call__(self, codes: Tensor, slots: Tensor, state: FishDecoderState) -> Tensor:
        """Decodes `codes [B, n, books]` to `[B, 1, n * hop]` in float32."""
        pieces = [self._latents(piece, slots, state) for piece in codes.split(min(MAX_POSITIONS, FRAME_WINDOW), dim=1)]
        latents = pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=1)
        return self._vocoder(latents, slots, state.tails)

    def _latents(self, codes: Tensor, slots: Tensor, state: FishDecoderState) -> Tensor:
        x = self._dequantize(codes).float().contiguous()
        self._transformer(x, slots, state.transformer)
        state.transformer.position.index_add_(0, slots, torch.full_like(slots, codes.shape[1]))
        return rms_norm(x, self._norm, self._eps)
