"""The codec's encoder: 44.1 kHz audio to codes, in one pass."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from rhapsode.models.fish_s2_pro.codec_config import ENCODER_WINDOW, FRAME_WINDOW, FishCodecConfig
from rhapsode.models.fish_s2_pro.transformer import ChannelTransformer
from rhapsode.nn.snake import Snake
from rhapsode.nn.streaming import CausalConv1d
from rhapsode.nn.vocoder import DILATIONS, KERNEL, ConvNeXt, ResidualUnit


class DownsampleBlock(nn.Module):
    def __init__(self, inputs: int, rate: int, transformer: nn.Module | None) -> None:
        super().__init__()
        units = [ResidualUnit(inputs, dilation, Snake) for dilation in DILATIONS]
        down = CausalConv1d(inputs, 2 * inputs, 2 * rate, rate)
        self.block = nn.Sequential(*units, Snake(inputs), down, *([] if transformer is None else [transformer]))

    def forward(self, x: Tensor) -> Tensor:
        return self.block(x)


class FishConvEncoder(nn.Module):
    """Encodes a waveform `[B, 1, N]` as `[B, latent, T]`, several positions per frame."""

    def __init__(self, config: FishCodecConfig) -> None:
        super().__init__()
        dim = config.encoder_dim
        dims = [dim << i for i in range(len(config.encoder_rates) + 1)]
        last = config.transformer(config.encoder_layers, dims[-1], config.encoder_ffn)
        transformers = [None] * (len(config.encoder_rates) - 1) + [ChannelTransformer(last, ENCODER_WINDOW)]
        blocks = map(DownsampleBlock, dims, config.encoder_rates, transformers)
        self.block = nn.Sequential(
            CausalConv1d(1, dim, KERNEL), *blocks, Snake(dims[-1]), CausalConv1d(dims[-1], config.latent, 3)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.block(x)


class EncoderBook(nn.Module):
    """A codebook that is searched by the angle between vectors."""

    def __init__(self, codes: int, config: FishCodecConfig) -> None:
        super().__init__()
        self.in_proj = nn.Conv1d(config.latent, config.code_dim, 1)
        self.codebook = nn.Embedding(codes, config.code_dim)
        self.out_proj = nn.Conv1d(config.code_dim, config.latent, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the codes `[F]` of `x [F, latent]`, and the residual."""
        table = self.codebook.weight
        inner = F.linear(x, self.in_proj.weight[..., 0], self.in_proj.bias)
        codes = (F.normalize(inner, dim=-1) @ F.normalize(table, dim=-1).T).argmax(-1)
        vectors = F.linear(F.embedding(codes, table), self.out_proj.weight[..., 0], self.out_proj.bias)
        return codes, x - vectors


class EncoderBooks(nn.Module):
    def __init__(self, books: int, codes: int, config: FishCodecConfig) -> None:
        super().__init__()
        self.quantizers = nn.ModuleList(EncoderBook(codes, config) for _ in range(books))


class FishQuantizer(nn.Module):
    """Downsamples to the frame rate, and quantizes frames: the semantic codebook first, then the residual ones."""

    def __init__(self, config: FishCodecConfig) -> None:
        super().__init__()
        latent = config.latent
        self.downsample = nn.Sequential(
            *(nn.Sequential(CausalConv1d(latent, latent, ratio, ratio), ConvNeXt(latent)) for ratio in config.ratios)
        )
        self.pre_module = ChannelTransformer(
            config.transformer(config.feature_layers, latent, config.ffn), FRAME_WINDOW
        )
        self.semantic_quantizer = EncoderBooks(1, config.semantic_codes, config)
        self.quantizer = EncoderBooks(config.residual_books, config.residual_codes, config)

    def forward(self, x: Tensor) -> Tensor:
        """Quantizes `x [1, latent, T]`: [F, books]."""
        rest = self.pre_module(self.downsample(x))[0].T
        found = []
        for book in (*self.semantic_quantizer.quantizers, *self.quantizer.quantizers):
            codes, rest = book(rest)
            found.append(codes)
        return torch.stack(found, dim=-1)


class FishCodecEncoder(nn.Module):
    """Encodes reference audio as codes."""

    def __init__(self, config: FishCodecConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = FishConvEncoder(config)
        self.quantizer = FishQuantizer(config)

    @torch.inference_mode()
    def encode(self, samples: NDArray[np.float32]) -> NDArray[np.int64]:
        """Encodes one recording, `samples [N]`, as codes `[ceil(N / hop), books]`.

        Products must have full float32 precision: with TF32, about three codes in a hundred change.
        """
        weight = next(self.parameters())
        padded = np.pad(samples, (0, -len(samples) % self.config.hop))
        audio = torch.from_numpy(padded).to(weight.device, weight.dtype)[None, None]
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            return self.quantizer(self.encoder(audio)).cpu().numpy()
