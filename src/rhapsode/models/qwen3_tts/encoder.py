"""The codec's encoder (Mimi's architecture): 24 kHz audio to codes, in one pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.checkpoints.folder import parse, section
from rhapsode.errors import BadAudio
from rhapsode.nn.decoder import DecoderConfig
from rhapsode.nn.derived import Derived
from rhapsode.nn.quantizer import Codebook, rvq_encode, stack
from rhapsode.nn.rope import RopeConfig
from rhapsode.nn.streaming import CausalConv1d
from rhapsode.nn.windowed import WindowedTransformer


@dataclass(frozen=True)
class CodecEncoderConfig:
    """`encoder_config` of speech_tokenizer/config.json, and how many of its codebooks are used.

    A missing key has upstream's default.
    """

    books: int
    audio_channels: int = 1
    sampling_rate: int = 24_000
    frame_rate: float = 0.0
    num_filters: int = 64
    kernel_size: int = 7
    last_kernel_size: int = 3
    residual_kernel_size: int = 3
    num_residual_layers: int = 1
    dilation_growth_rate: int = 2
    compress: int = 2
    use_conv_shortcut: bool = False
    pad_mode: Literal["constant", "replicate"] = "constant"
    upsampling_ratios: tuple[int, ...] = (8, 6, 5, 4)
    hidden_size: int = 512
    intermediate_size: int = 2048
    num_hidden_layers: int = 8
    num_attention_heads: int = 8
    num_key_value_heads: int = 8
    head_dim: int = 0
    norm_eps: float = 1e-5
    rope_theta: float = 10_000.0
    codebook_size: int = 2048
    vector_quantization_hidden_dimension: int = 256
    num_semantic_quantizers: int = 1

    @classmethod
    def from_dict(cls, codec: Mapping[str, Any]) -> CodecEncoderConfig:
        """Reads all of speech_tokenizer/config.json."""
        where = "speech_tokenizer/config.json"
        values = section(codec, "encoder_config", where)
        books = codec.get("encoder_valid_num_quantizers")
        given = {"frame_rate": values.get("_frame_rate")} | dict(values) | {"books": books}
        return parse(cls, given, f"encoder_config in {where}")

    @property
    def downsampling(self) -> int:
        """Features per frame."""
        return int(self.sampling_rate / prod(self.upsampling_ratios) / self.frame_rate) if self.frame_rate else 2

    @property
    def hop(self) -> int:
        return prod(self.upsampling_ratios) * self.downsampling

    def transformer(self) -> DecoderConfig:
        head_dim = self.head_dim or self.hidden_size // self.num_attention_heads
        rope = RopeConfig(head_dim, self.rope_theta)
        return DecoderConfig.of(self, head_dim, rope, norm="layer", eps=self.norm_eps, mlp="gelu")


class EncoderUnit(nn.Module):
    """A residual unit."""

    def __init__(self, config: CodecEncoderConfig, dim: int, dilation: int) -> None:
        super().__init__()
        bottleneck, mode = dim // config.compress, config.pad_mode
        inner = CausalConv1d(dim, bottleneck, config.residual_kernel_size, dilation=dilation, pad_mode=mode)
        self.block = nn.Sequential(nn.ELU(), inner, nn.ELU(), CausalConv1d(bottleneck, dim, 1, pad_mode=mode))
        self.shortcut = CausalConv1d(dim, dim, 1, pad_mode=mode) if config.use_conv_shortcut else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.shortcut(x) + self.block(x)


class ConvEncoder(nn.Module):
    """Encodes a waveform `[B, 1, N]` as features `[B, hidden, T]`, a few per frame."""

    def __init__(self, config: CodecEncoderConfig) -> None:
        super().__init__()
        dim, mode = config.num_filters, config.pad_mode
        layers: list[nn.Module] = [CausalConv1d(config.audio_channels, dim, config.kernel_size, pad_mode=mode)]
        for ratio in reversed(config.upsampling_ratios):
            dilations = (config.dilation_growth_rate**i for i in range(config.num_residual_layers))
            layers += [EncoderUnit(config, dim, dilation) for dilation in dilations]
            layers += [nn.ELU(), CausalConv1d(dim, 2 * dim, 2 * ratio, stride=ratio, pad_mode=mode)]
            dim *= 2
        layers += [nn.ELU(), CausalConv1d(dim, config.hidden_size, config.last_kernel_size, pad_mode=mode)]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class _EncoderBook(nn.Module):
    def __init__(self, config: CodecEncoderConfig) -> None:
        super().__init__()
        self.codebook = Codebook(config.codebook_size, config.vector_quantization_hidden_dimension, "embed_sum")


class ResidualQuantizer(Derived):
    """Quantizes features with a list of codebooks."""

    tables: Tensor  # [books, K, D]

    def __init__(self, config: CodecEncoderConfig, books: int) -> None:
        super().__init__()
        dim = config.vector_quantization_hidden_dimension
        self.input_proj = nn.Conv1d(config.hidden_size, dim, 1, bias=False) if dim != config.hidden_size else None
        self.layers = nn.ModuleList([_EncoderBook(config) for _ in range(books)])
        self.register_buffer("tables", None, persistent=False)

    def derive(self) -> None:
        self.tables = stack(book.codebook for book in self.layers if isinstance(book, _EncoderBook))

    def forward(self, x: Tensor) -> Tensor:
        vectors = x if self.input_proj is None else F.linear(x, self.input_proj.weight[..., 0])
        return rvq_encode(vectors, self.tables)  # [F, books]


class SplitQuantizer(nn.Module):
    """A semantic quantizer and an acoustic one, both of the same features."""

    def __init__(self, config: CodecEncoderConfig) -> None:
        super().__init__()
        semantic = config.num_semantic_quantizers
        self.semantic_residual_vector_quantizer = ResidualQuantizer(config, semantic)
        self.acoustic_residual_vector_quantizer = ResidualQuantizer(config, config.books - semantic)

    def forward(self, x: Tensor) -> Tensor:
        codes = self.semantic_residual_vector_quantizer(x), self.acoustic_residual_vector_quantizer(x)
        return torch.cat(codes, dim=-1)


class CodecEncoder(nn.Module):
    """Encodes reference audio as codes."""

    def __init__(self, config: CodecEncoderConfig) -> None:
        super().__init__()
        ratio = config.downsampling
        self.config = config
        self.encoder = ConvEncoder(config)
        # The config has a window, but upstream does not apply it.
        self.encoder_transformer = WindowedTransformer(config.transformer(), window=None)
        self.downsample = CausalConv1d(
            config.hidden_size, config.hidden_size, 2 * ratio, stride=ratio, bias=False, pad_mode="replicate"
        )
        self.quantizer = SplitQuantizer(config)

    def features(self, audio: Tensor) -> Tensor:
        """Encodes `audio [B, 1, N]` as the features to quantize, [B, ceil(N / hop), hidden]."""
        x = self.encoder_transformer(self.encoder(audio).transpose(1, 2))
        return self.downsample(x.transpose(1, 2)).transpose(1, 2)

    @torch.inference_mode()
    def encode(self, audio: Tensor) -> Tensor:
        """Encodes one recording, `audio [N]`, as codes `[ceil(N / hop), books]`."""
        if not len(audio):
            raise BadAudio("The reference audio is empty.")
        weight = self.downsample.conv.weight
        features = self.features(audio[None, None].to(weight.device, weight.dtype))
        return self.quantizer(features[0])
