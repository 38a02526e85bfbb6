"""The codec's encoder and decoder, built and filled with the tensors of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable

import torch

from rhapsode.checkpoints.weights import Tensors
from rhapsode.models.base import StageContext
from rhapsode.models.higgs.codec.decoder import HiggsDecoder
from rhapsode.models.higgs.codec.encoder import HiggsEncoder
from rhapsode.models.higgs.codec.names import (
    DECODER_ONLY,
    ENCODER_ONLY,
    OLD_MAGNITUDE,
    UNUSED,
    decoder_names,
    encoder_names,
)
from rhapsode.models.higgs.codec.settings import CodecSettings
from rhapsode.models.parts import fill
from rhapsode.nn import kernels

Source = Callable[[], Tensors]
"""Opens the file with the codec's tensors. It is not called where weights are random."""


def decoder(settings: CodecSettings, context: StageContext, source: Source, prefix: str = "") -> HiggsDecoder:
    """Returns the decoder; the names of its tensors begin with `prefix`."""
    built = fill(
        lambda: HiggsDecoder(settings),
        context,
        source,
        prefix=prefix,
        names=decoder_names(settings),
        ignore=(*UNUSED, *ENCODER_ONLY),
        dtype=_dtype(context),
    )
    if kernels.on(built.tables):
        from rhapsode.models.higgs.codec.fused import fuse  # which needs Triton

        fuse(built)
    return built


def encoder(settings: CodecSettings, context: StageContext, source: Source, prefix: str = "") -> HiggsEncoder:
    """Returns the encoder of references, in float32 as upstream, or in float64."""
    dtype = torch.float64 if context.dtype == "float64" else torch.float32
    tensors = None if context.random_weights else source()
    names = encoder_names(older=tensors is not None and prefix + OLD_MAGNITUDE in tensors)

    def opened() -> Tensors:
        assert tensors is not None  # they are only asked for where weights are read
        return tensors

    ignore = (*UNUSED, *DECODER_ONLY)
    return fill(lambda: HiggsEncoder(settings), context, opened, prefix=prefix, names=names, ignore=ignore, dtype=dtype)


def _dtype(context: StageContext) -> torch.dtype:
    """Returns the codec's dtype. bfloat16 becomes float32 as upstream, or float16 (more precise) where kernels run."""
    dtype: torch.dtype = getattr(torch, context.dtype)
    if dtype == torch.bfloat16:
        fused = kernels.on(torch.empty(0, dtype=dtype, device=context.device))
        return torch.float16 if fused else torch.float32
    return dtype
