"""The codec for training: the serving modules, a trainable quantizer and a phoneme classifier."""

from __future__ import annotations

import json
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import rhapsode
from export import write_tensors
from quantizer import LearningQuantizer
from rhapsode.checkpoints.load import load
from rhapsode.models.qwen3_tts.decoder import CodecDecoder, CodecDecoderConfig
from rhapsode.models.qwen3_tts.encoder import CodecEncoder, CodecEncoderConfig, EncoderUnit
from rhapsode.nn.snake import SnakeBeta
from rhapsode.nn.streaming import CausalConvTranspose1d
from rhapsode.nn.vocoder import ResidualUnit
from snake import snake
from teacher import MOMENTS

SHAPE = Path(rhapsode.__path__[0]) / "bench" / "shapes" / "qwen3-tts-nano"
"""What the voice looks like, in the configs it is served with."""
PHONEMES = 178
"""Symbols of the teacher's alphabet."""
NARROW = 3
"""From this stage of the decoder on nothing is rounded to bfloat16: it would be heard."""


class Heard(NamedTuple):
    audio: Tensor  # [B, 1, N]
    commitment: Tensor
    phonemes: Tensor  # [B, F, 4, PHONEMES]


class TrainableCodec(nn.Module):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.encoder = CodecEncoder(CodecEncoderConfig.from_dict(config))
        self.decoder = CodecDecoder(CodecDecoderConfig.from_dict(config["decoder_config"]))
        self.quantizer = LearningQuantizer(self.encoder, self.decoder)
        dim = self.decoder.config.codebook_dim // 2
        self.phonemes = nn.Linear(dim, len(MOMENTS) * PHONEMES)
        for part in self.decoder.modules():
            if isinstance(part, SnakeBeta):
                part.forward = _trained(part)  # type: ignore[method-assign]
        _initialise(self)

    def forward(self, audio: Tensor, learn: bool = True) -> Heard:
        """`audio [B, 1, frames * hop]` through encoder, quantizer and decoder."""
        features = self.encoder.features(audio).float()
        with torch.autocast(audio.device.type, enabled=False):
            quantized = self.quantizer(features, learn)
            phonemes = self.phonemes(quantized.content).unflatten(-1, (len(MOMENTS), PHONEMES))
        return Heard(self.synthesise(quantized.vectors), quantized.commitment, phonemes)

    def synthesise(self, vectors: Tensor) -> Tensor:
        """Quantized `vectors [B, F, codebook_dim]` to samples `[B, 1, F * hop]`."""
        decoder = self.decoder
        for part in decoder.modules():
            if isinstance(part, CausalConvTranspose1d):
                part.derive()  # with gradients, for what is derived here is what is learned
        x = decoder.pre_conv(vectors.transpose(1, 2)).transpose(1, 2)
        x = decoder.upsample(decoder.pre_transformer(x).transpose(1, 2))
        for stage, part in enumerate(decoder.decoder):
            if stage < NARROW:
                x = part(x)
                continue
            with torch.autocast(x.device.type, enabled=False):
                x = part(x.float())
        return x

    @torch.no_grad()
    def codes(self, audio: Tensor) -> Tensor:
        """`[B, 1, N]` to `[B, F, G]`."""
        return self.quantizer(self.encoder.features(audio).float(), learn=False).codes


def _trained(part: SnakeBeta) -> Any:
    return lambda x: snake(x, part.alpha, part.beta)


def _initialise(codec: TrainableCodec) -> None:
    """Keeps the scale of activations in every layer: otherwise the decoder ignores the latents for 1,000 steps."""
    for part in codec.modules():
        if isinstance(part, nn.Conv1d | nn.ConvTranspose1d | nn.Linear):
            inputs = part.weight[0].numel()
            if isinstance(part, nn.ConvTranspose1d):
                inputs = part.in_channels * part.kernel_size[0] // part.stride[0]
            nn.init.normal_(part.weight, std=1 / sqrt(inputs))
            if part.bias is not None:
                nn.init.zeros_(part.bias)
    with torch.no_grad():
        for part in codec.modules():
            if isinstance(part, ResidualUnit):
                part.conv2.conv.weight.mul_(0.2)
            elif isinstance(part, EncoderUnit):
                part.block[-1].conv.weight.mul_(0.5)
        for name, scale in codec.decoder.named_parameters():
            if name.endswith(("layer_scale.scale", "gamma")):
                scale.fill_(0.1)
        codec.decoder.decoder[-1].conv.weight.mul_(0.02)


def read_config(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "config.json").read_text())


def restore(codec: TrainableCodec, folder: Path, device: torch.device) -> None:
    """Resumes from what `save` wrote."""
    load(codec.decoder, folder, prefix="decoder.", device=device)
    load(codec.encoder, folder, prefix="encoder.", device=device)
    codec.quantizer.learned = True
    codec.requires_grad_(True)


def save(codec: TrainableCodec, folder: Path) -> None:
    """Writes the codec in the layout that is served."""
    codec.quantizer.share()
    write_tensors(folder / "model.safetensors", {"encoder.": codec.encoder, "decoder.": codec.decoder})
