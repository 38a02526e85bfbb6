"""The codec's decoder by fused kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from rhapsode.models.higgs.codec.decoder import HiggsDecoder, HiggsDecoderState
from rhapsode.nn.fused.symmetric import FusedSymmetricVocoder
from rhapsode.nn.kernels.gpu.codebooks import codebook_sum


def fuse(decoder: HiggsDecoder) -> None:
    """Lets kernels decode slots. Call it after `derive`: it copies weights."""
    if decoder.tables.dtype != torch.float64:
        decoder.fused = HiggsFusedDecoder(decoder)


class HiggsFusedDecoder:
    """Decodes the slots of a `HiggsDecoder` with its weights packed; the plain modules are the reference."""

    def __init__(self, decoder: HiggsDecoder) -> None:
        self._tables = decoder.tables
        self._vocoder = FusedSymmetricVocoder(decoder.vocoder)

    def __call__(self, codes: Tensor, present: Tensor, slots: Tensor, state: HiggsDecoderState) -> Tensor:
        """Decodes `codes [B, n, books]` to `[B, 1, n * hop]` in float32."""
        vectors = self._tables.new_empty(*codes.shape[:2], self._tables.shape[2])
        codebook_sum(codes, self._tables, vectors)
        return self._vocoder(vectors, present, slots, state.vocoder)
