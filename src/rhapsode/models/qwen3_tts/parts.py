"""Parts of a checkpoint, built and filled: the talker, the codec's decoder, and the two encoders of references."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rhapsode.checkpoints.folder import read_config, section
from rhapsode.models.base import StageContext
from rhapsode.models.parts import Net, checkpoint_of, fill
from rhapsode.models.qwen3_tts.config import QwenConfig
from rhapsode.models.qwen3_tts.decoder import CodecDecoder, CodecDecoderConfig
from rhapsode.models.qwen3_tts.encoder import CodecEncoder, CodecEncoderConfig
from rhapsode.models.qwen3_tts.net import TalkerNet
from rhapsode.models.qwen3_tts.packed import pack
from rhapsode.models.qwen3_tts.speaker import SpeakerConfig, SpeakerEncoder
from rhapsode.nn import kernels


def talker(config: QwenConfig, context: StageContext) -> TalkerNet:
    net = _fill(lambda: TalkerNet(config), context, "talker.", dtype=getattr(torch, context.dtype))
    if context.device == "cpu" and context.dtype == "float32" and context.weights != "fp8":
        net.pack()
    return net


def encoder(context: StageContext) -> Callable[[NDArray[np.float32]], NDArray[Any]]:
    """Returns the codec's encoder, as a function from 24 kHz samples `[N]` to codes `[F, G]`."""
    config = CodecEncoderConfig.from_dict(read_config(checkpoint_of(context) / "speech_tokenizer"))
    unused = ("quantizer.*",)  # codebooks after those that are used, and layers for decoding
    net = _fill(lambda: CodecEncoder(config), context, "encoder.", "speech_tokenizer", unused)
    return lambda samples: net.encode(torch.from_numpy(samples)).cpu().numpy()


def decoder(context: StageContext) -> CodecDecoder:
    """Returns the codec's decoder, from codes to samples."""
    folder = "speech_tokenizer"
    config = section(read_config(checkpoint_of(context) / folder), "decoder_config", f"{folder}/config.json")
    built = CodecDecoderConfig.from_dict(config)
    only_for_training = ("quantizer.*.input_proj.*",)
    dtype = _codec_dtype(context)
    net = _fill(lambda: CodecDecoder(built), context, "decoder.", folder, only_for_training, dtype)
    if kernels.on(net.pre_conv.conv.weight):
        from rhapsode.models.qwen3_tts.fused import fuse  # which needs Triton

        fuse(net)
    if context.device == "cpu" and dtype == torch.float32:
        pack(net)
    return net


def embedder(context: StageContext) -> Callable[[NDArray[np.float32]], NDArray[Any]]:
    """Returns the speaker encoder, as a function from 24 kHz samples `[N]` to a speaker embedding."""
    config = SpeakerConfig.from_dict(section(context.config, "speaker_encoder_config", "config.json"))
    net = _fill(lambda: SpeakerEncoder(config), context, "speaker_encoder.")
    return lambda samples: net.embed(torch.from_numpy(samples)).float().cpu().numpy()


def _codec_dtype(context: StageContext) -> torch.dtype:
    """Returns the codec's dtype. Where kernels run, float16 replaces bfloat16: it is as fast and keeps three more bits.

    With random weights, that is 11 to 18 dB less noise; `benchmarks/codec_kernels.py` measures it. The smaller range of
    float16 does no harm there: sums are float32, and values that convolutions store are limited, never infinite.
    """
    dtype: torch.dtype = getattr(torch, context.dtype)
    if dtype == torch.bfloat16 and kernels.on(torch.empty(0, dtype=dtype, device=context.device)):
        return torch.float16
    return dtype


def _fill(
    build: Callable[[], Net],
    context: StageContext,
    prefix: str,
    folder: str = "",
    ignore: Sequence[str] = (),
    dtype: torch.dtype = torch.float32,
) -> Net:
    return fill(build, context, lambda: checkpoint_of(context) / folder, prefix=prefix, ignore=ignore, dtype=dtype)
