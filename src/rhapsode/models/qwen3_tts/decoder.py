"""The codec's decoder: frames of codes to a waveform, exact wherever the frames are cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING, Any

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
from rhapsode.nn.streaming import CausalConv1d, CausalConvTranspose1d, Chain, PartsState, Streaming, join_tails
from rhapsode.nn.windowed import WindowedTransformer, WindowState

if TYPE_CHECKING:
    from rhapsode.models.qwen3_tts.fused import FusedDecoder

_KERNEL = 7
_DILATIONS = (1, 3, 9)


@dataclass(frozen=True)
class CodecDecoderConfig:
    """`decoder_config` of speech_tokenizer/config.json; the defaults are upstream's for a key that is not there."""

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
        """So many frames decide all that the convolutions after the transformer remember."""
        rate, reach = 1, 0.0
        for ratio in self.upsampling_ratios:
            rate *= ratio
            reach += (_KERNEL - 1) / rate
        reach += (_KERNEL - 1) / rate
        for ratio in self.upsample_rates:
            reach += 1 / rate
            rate *= ratio
            reach += (_KERNEL - 1) * sum(_DILATIONS) / rate
        return ceil(reach + (_KERNEL - 1) / rate)

    def transformer(self) -> DecoderConfig:
        head_dim = self.head_dim or self.hidden_size // self.num_attention_heads
        return DecoderConfig(
            hidden=self.hidden_size,
            ffn=self.intermediate_size,
            layers=self.num_hidden_layers,
            heads=self.num_attention_heads,
            kv_heads=self.num_key_value_heads,
            head_dim=head_dim,
            rope=RopeConfig(head_dim, self.rope_theta),
            eps=self.rms_norm_eps,
            attention_bias=self.attention_bias,
            output_bias=self.attention_bias,
        )


class DecoderState(State):
    """What all convolutions keep is one buffer, which kernels read and write at once; modules see their part of it."""

    def __init__(self, decoder: CodecDecoder, slots: int) -> None:
        self.pre_conv = decoder.pre_conv.state(slots)
        self.transformer = decoder.pre_transformer.state(slots)
        self.upsample = decoder.upsample.state(slots)
        self.decoder = decoder.decoder.state(slots)
        self.tails = join_tails([self.pre_conv, self.upsample, self.decoder])  # [slots + 1, all tails]

    def tensors(self) -> Iterator[Tensor]:
        yield self.tails
        yield from self.transformer.tensors()


class _Book(nn.Module):
    def __init__(self, codes: int, dim: int) -> None:
        super().__init__()
        self._codebook = Codebook(codes, dim)


class _Books(nn.Module):
    def __init__(self, books: int, codes: int, dim: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([_Book(codes, dim) for _ in range(books)])


class ResidualQuantizer(Derived):
    tables: Tensor  # [books, K, D]

    def __init__(self, config: CodecDecoderConfig, books: int) -> None:
        super().__init__()
        dim = config.codebook_dim // 2
        self.output_proj = nn.Conv1d(dim, config.codebook_dim, 1, bias=False)
        self.vq = _Books(books, config.codebook_size, dim)
        self.register_buffer("tables", None, persistent=False)

    def derive(self) -> None:
        self.tables = stack(book._codebook for book in self.vq.layers if isinstance(book, _Book))

    def forward(self, codes: Tensor) -> Tensor:
        return F.linear(rvq_decode(codes, self.tables), self.output_proj.weight[..., 0])


class SplitQuantizer(nn.Module):
    """The first codebook and the others, each with a projection; `[B, n, G]` to `[B, n, codebook_dim]`."""

    def __init__(self, config: CodecDecoderConfig) -> None:
        super().__init__()
        self.rvq_first = ResidualQuantizer(config, 1)
        self.rvq_rest = ResidualQuantizer(config, config.num_quantizers - 1)

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


class ConvNeXt(Streaming):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dwconv = CausalConv1d(dim, dim, _KERNEL, groups=dim)
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.pwconv1 = nn.Linear(dim, 4 * dim)
        self.pwconv2 = nn.Linear(4 * dim, dim)
        self.gamma = nn.Parameter(torch.ones(dim))

    def state(self, slots: int) -> State:
        return self.dwconv.state(slots)

    def forward(self, x: Tensor, slots: Tensor | None = None, state: State | None = None) -> Tensor:
        mixed = self.norm(self.dwconv(x, slots, state).transpose(1, 2))
        mixed = self.pwconv2(F.gelu(self.pwconv1(mixed)))
        return torch.addcmul(x, mixed.transpose(1, 2), self.gamma[:, None])


class ResidualUnit(Streaming):
    def __init__(self, dim: int, dilation: int) -> None:
        super().__init__()
        self.act1 = SnakeBeta(dim)
        self.conv1 = CausalConv1d(dim, dim, _KERNEL, dilation=dilation)
        self.act2 = SnakeBeta(dim)
        self.conv2 = CausalConv1d(dim, dim, 1)

    def state(self, slots: int) -> State:
        return self.conv1.state(slots)

    def forward(self, x: Tensor, slots: Tensor | None = None, state: State | None = None) -> Tensor:
        return x + self.conv2(self.act2(self.conv1(self.act1(x), slots, state)))


class UpsampleBlock(Streaming):
    def __init__(self, inputs: int, outputs: int, rate: int) -> None:
        super().__init__()
        units = [ResidualUnit(outputs, dilation) for dilation in _DILATIONS]
        self.block = Chain(SnakeBeta(inputs), CausalConvTranspose1d(inputs, outputs, 2 * rate, rate), *units)

    def state(self, slots: int) -> PartsState:
        return self.block.state(slots)

    def forward(self, x: Tensor, slots: Tensor | None = None, state: PartsState | None = None) -> Tensor:
        return self.block(x, slots, state)


class CodecDecoder(nn.Module):
    """Codes to latents at the frame rate, latents to samples. Without slots it is one pass over the whole.

    With slots it runs on kernels where it was told to `fuse`; the modules are the reference.
    """

    def __init__(self, config: CodecDecoderConfig) -> None:
        super().__init__()
        self.config = config
        self._fused: FusedDecoder | None = None
        latent, dims = config.latent_dim, [config.decoder_dim >> i for i in range(len(config.upsample_rates) + 1)]
        self.quantizer = SplitQuantizer(config)
        self.pre_conv = CausalConv1d(config.codebook_dim, latent, 3)
        self.pre_transformer = PreTransformer(config)
        self.upsample = Chain(
            *(
                Chain(CausalConvTranspose1d(latent, latent, ratio, ratio), ConvNeXt(latent))
                for ratio in config.upsampling_ratios
            )
        )
        blocks = map(UpsampleBlock, dims, dims[1:], config.upsample_rates)
        self.decoder = Chain(
            CausalConv1d(latent, dims[0], _KERNEL), *blocks, SnakeBeta(dims[-1]), CausalConv1d(dims[-1], 1, _KERNEL)
        )

    def fuse(self) -> None:
        """Let kernels serve slots, where there are kernels for it and they are on. Call after `derive`: it copies."""
        weight = self.pre_conv.conv.weight
        if not kernels.on(weight) or weight.dtype == torch.float64:
            return
        from rhapsode.models.qwen3_tts.fused import FusedDecoder
        from rhapsode.nn.kernels.gpu.transformer import suits

        self._fused = FusedDecoder(self) if suits(self.pre_transformer) else None

    def state(self, slots: int) -> DecoderState:
        return DecoderState(self, slots)

    def latents(self, codes: Tensor, slots: Tensor | None = None, state: DecoderState | None = None) -> Tensor:
        """`codes [B, n, G]` to `[B, n, latent]`."""
        if self._fused is not None and slots is not None and state is not None and kernels.on(state.tails):
            return self._fused.latents(codes, slots, state)
        x = self.quantizer(codes).transpose(1, 2)
        x = self.pre_conv(x, slots, state and state.pre_conv).transpose(1, 2)
        return self.pre_transformer(x, slots, state and state.transformer)

    def waveform(self, latents: Tensor, slots: Tensor | None = None, state: DecoderState | None = None) -> Tensor:
        """`latents [B, n, latent]` to `[B, 1, n * hop]` within [-1, 1], in float32 or better."""
        if self._fused is not None and slots is not None and state is not None and kernels.on(state.tails):
            return self._fused.waveform(latents, slots, state)
        x = self.upsample(latents.transpose(1, 2), slots, state and state.upsample)
        audio = self.decoder(x, slots, state and state.decoder).clamp(-1, 1)
        return audio.to(torch.promote_types(audio.dtype, torch.float32))

    def forward(self, codes: Tensor, slots: Tensor | None = None, state: DecoderState | None = None) -> Tensor:
        return self.waveform(self.latents(codes, slots, state), slots, state)
