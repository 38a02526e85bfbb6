"""The codec's decoder: frames of codes to a waveform; every chunk schedule gives the same samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.checkpoints.folder import parse
from rhapsode.device.state import State
from rhapsode.nn import kernels
from rhapsode.nn.decoder import DecoderConfig
from rhapsode.nn.derived import Derived
from rhapsode.nn.norm import RMSNorm
from rhapsode.nn.quantizer import Codebook, rvq_decode, stack
from rhapsode.nn.rope import RopeConfig
from rhapsode.nn.snake import SnakeBeta
from rhapsode.nn.streaming import CausalConv1d, join_tails
from rhapsode.nn.vocoder import settle_frames, upsampler, vocoder
from rhapsode.nn.windowed import WindowedTransformer, WindowState


@dataclass(frozen=True)
class CodecDecoderConfig:
    """`decoder_config` of speech_tokenizer/config.json; a missing key has upstream's default."""

    codebook_dim: int
    codebook_size: int = 2048
    num_quantizers: int = 16
    latent_dim: int = 1024
    hidden_size: int = 1024
    intermediate_size: int = 3072
    num_hidden_layers: int = 8
    num_attention_heads: int = 16
    num_key_value_heads: int = 16
    head_dim: int = 0
    attention_bias: bool = False
    sliding_window: int = 72
    rope_theta: float = 10_000.0
    rms_norm_eps: float = 1e-5
    upsample_rates: tuple[int, ...] = (8, 5, 4, 3)
    upsampling_ratios: tuple[int, ...] = (2, 2)
    decoder_dim: int = 1536

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> CodecDecoderConfig:
        return parse(cls, values, "decoder_config in speech_tokenizer/config.json")

    @property
    def hop(self) -> int:
        """Samples per frame."""
        return prod(self.upsample_rates) * prod(self.upsampling_ratios)

    @property
    def settle_frames(self) -> int:
        """The receptive field of the convolutions after the transformer: how many frames determine their state."""
        return settle_frames(self.upsampling_ratios, self.upsample_rates)

    def transformer(self) -> DecoderConfig:
        head_dim = self.head_dim or self.hidden_size // self.num_attention_heads
        return DecoderConfig.of(
            self,
            head_dim,
            RopeConfig(head_dim, self.rope_theta),
            eps=self.rms_norm_eps,
            attention_bias=self.attention_bias,
            output_bias=self.attention_bias,
        )


class DecoderState(State):
    """The state of all convolutions is one buffer, which kernels copy in one launch; modules have views of it."""

    def __init__(self, decoder: CodecDecoder, slots: int) -> None:
        self.pre_conv = decoder.pre_conv.state(slots)
        self.transformer = decoder.pre_transformer.state(slots)
        self.upsample = decoder.upsample.state(slots)
        self.decoder = decoder.decoder.state(slots)
        self.tails = join_tails([self.pre_conv, self.upsample, self.decoder])  # [slots + 1, all tails]

    def tensors(self) -> Iterator[Tensor]:
        yield self.tails
        yield from self.transformer.tensors()


class _DecoderBook(nn.Module):
    def __init__(self, codes: int, dim: int) -> None:
        super().__init__()
        self._codebook = Codebook(codes, dim)


class _DecoderBooks(nn.Module):
    def __init__(self, books: int, codes: int, dim: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([_DecoderBook(codes, dim) for _ in range(books)])


class ResidualDequantizer(Derived):
    """Sums and projects the vectors of a list of codebooks."""

    tables: Tensor  # [books, K, D]

    def __init__(self, config: CodecDecoderConfig, books: int) -> None:
        super().__init__()
        dim = config.codebook_dim // 2
        self.output_proj = nn.Conv1d(dim, config.codebook_dim, 1, bias=False)
        self.vq = _DecoderBooks(books, config.codebook_size, dim)
        self.register_buffer("tables", None, persistent=False)

    def derive(self) -> None:
        self.tables = stack(book._codebook for book in self.vq.layers if isinstance(book, _DecoderBook))

    def forward(self, codes: Tensor) -> Tensor:
        return F.linear(rvq_decode(codes, self.tables), self.output_proj.weight[..., 0])


class SplitDequantizer(nn.Module):
    """Decodes the first codebook and the others, each with a projection: `[B, n, G]` to `[B, n, codebook_dim]`."""

    def __init__(self, config: CodecDecoderConfig) -> None:
        super().__init__()
        self.rvq_first = ResidualDequantizer(config, 1)
        self.rvq_rest = ResidualDequantizer(config, config.num_quantizers - 1)

    def forward(self, codes: Tensor) -> Tensor:
        return self.rvq_first(codes[..., :1]) + self.rvq_rest(codes[..., 1:])


class PreTransformer(WindowedTransformer):
    def __init__(self, config: CodecDecoderConfig) -> None:
        super().__init__(config.transformer(), config.sliding_window)
        self.input_proj = nn.Linear(config.latent_dim, config.hidden_size)
        self.norm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.output_proj = nn.Linear(config.hidden_size, config.latent_dim)

    def forward(self, x: Tensor, slots: Tensor | None = None, state: WindowState | None = None) -> Tensor:
        return self.output_proj(self.norm(super().forward(self.input_proj(x), slots, state)))


class SlotDecoder(Protocol):
    """Decodes slots by fused kernels."""

    def latents(self, codes: Tensor, slots: Tensor, state: DecoderState) -> Tensor: ...

    def waveform(self, latents: Tensor, slots: Tensor, state: DecoderState) -> Tensor: ...


class CodecDecoder(nn.Module):
    """Decodes codes to latents at the frame rate, and latents to samples.

    Without slots, it decodes whole sequences in one pass. With slots, it uses `fused` on a GPU and `packed` on a CPU
    (see the files of these names), where there are kernels; the modules are the reference.
    """

    def __init__(self, config: CodecDecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.fused: SlotDecoder | None = None
        self.packed: SlotDecoder | None = None
        latent = config.latent_dim
        self.quantizer = SplitDequantizer(config)
        self.pre_conv = CausalConv1d(config.codebook_dim, latent, 3)
        self.pre_transformer = PreTransformer(config)
        self.upsample = upsampler(latent, config.upsampling_ratios)
        self.decoder = vocoder(latent, config.decoder_dim, config.upsample_rates, SnakeBeta)

    def state(self, slots: int) -> DecoderState:
        return DecoderState(self, slots)

    def _kernels(self, slots: Tensor | None, state: DecoderState | None) -> SlotDecoder | None:
        if slots is None or state is None:
            return None
        return self.fused if kernels.on(state.tails) else self.packed

    def latents(self, codes: Tensor, slots: Tensor | None = None, state: DecoderState | None = None) -> Tensor:
        """Decodes `codes [B, n, G]` to `[B, n, latent]`."""
        fused = self._kernels(slots, state)
        if fused is not None and slots is not None and state is not None:
            return fused.latents(codes, slots, state)
        x = self.quantizer(codes).transpose(1, 2)
        x = self.pre_conv(x, slots, state and state.pre_conv).transpose(1, 2)
        return self.pre_transformer(x, slots, state and state.transformer)

    def waveform(self, latents: Tensor, slots: Tensor | None = None, state: DecoderState | None = None) -> Tensor:
        """Decodes `latents [B, n, latent]` to `[B, 1, n * hop]` within [-1, 1], in float32 or float64."""
        fused = self._kernels(slots, state)
        if fused is not None and slots is not None and state is not None:
            return fused.waveform(latents, slots, state)
        x = self.upsample(latents.transpose(1, 2), slots, state and state.upsample)
        audio = self.decoder(x, slots, state and state.decoder).clamp(-1, 1)
        return audio.to(torch.promote_types(audio.dtype, torch.float32))

    def forward(self, codes: Tensor, slots: Tensor | None = None, state: DecoderState | None = None) -> Tensor:
        return self.waveform(self.latents(codes, slots, state), slots, state)
