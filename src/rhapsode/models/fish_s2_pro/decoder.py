"""The codec's decoder: frames of codes to a waveform; every chunk schedule gives the same samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.device.state import State
from rhapsode.models.fish_s2_pro.codec_config import FRAME_WINDOW, FishCodecConfig
from rhapsode.models.fish_s2_pro.transformer import CodecTransformer
from rhapsode.nn import kernels
from rhapsode.nn.derived import Derived
from rhapsode.nn.snake import Snake
from rhapsode.nn.streaming import join_tails
from rhapsode.nn.vocoder import upsampler, vocoder


class DecoderBook(nn.Module):
    """A codebook and the projection of its vectors."""

    def __init__(self, codes: int, config: FishCodecConfig) -> None:
        super().__init__()
        self.codebook = nn.Embedding(codes, config.code_dim)
        self.out_proj = nn.Conv1d(config.code_dim, config.latent, 1)

    def table(self) -> Tensor:
        """Returns the projected vector of every code, [codes, latent]."""
        return F.linear(self.codebook.weight, self.out_proj.weight[..., 0], self.out_proj.bias)


class DecoderBooks(nn.Module):
    def __init__(self, books: int, codes: int, config: FishCodecConfig) -> None:
        super().__init__()
        self.quantizers = nn.ModuleList(DecoderBook(codes, config) for _ in range(books))


class Dequantizer(Derived):
    """The checkpoint's `quantizer`: embeds codes, and holds the transformer and the upsampling that come after."""

    tables: Tensor  # [codes of all books, latent], once derived
    first_rows: Tensor  # [books]
    last_codes: Tensor  # [books]

    def __init__(self, config: FishCodecConfig) -> None:
        super().__init__()
        sizes = torch.tensor([config.semantic_codes] + [config.residual_codes] * config.residual_books, device="cpu")
        self.semantic_quantizer = DecoderBooks(1, config.semantic_codes, config)
        self.quantizer = DecoderBooks(config.residual_books, config.residual_codes, config)
        self.post_module = CodecTransformer(
            config.transformer(config.decoder_layers, config.latent, config.ffn), FRAME_WINDOW
        )
        self.upsample = upsampler(config.latent, config.ratios)
        self.register_buffer("tables", None, persistent=False)
        self.register_buffer("first_rows", sizes.cumsum(0) - sizes, persistent=False)
        self.register_buffer("last_codes", sizes - 1, persistent=False)

    def derive(self) -> None:
        """Projects every code once, so that a frame is a sum of rows."""
        books = (*self.semantic_quantizer.quantizers, *self.quantizer.quantizers)
        self.tables = torch.cat([book.table() for book in books if isinstance(book, DecoderBook)])

    def forward(self, codes: Tensor) -> Tensor:
        """Sums the vectors of `codes [B, n, books]`: [B, n, latent]. A residual code that is too large for its book
        counts as the last one, as upstream."""
        codes = torch.minimum(codes, self.last_codes)
        return F.embedding(codes + self.first_rows, self.tables).sum(-2)


class Vocoder(nn.Module):
    """Holds the vocoder's chain of modules in `model`, as upstream nests them."""

    def __init__(self, config: FishCodecConfig) -> None:
        super().__init__()
        self.model = vocoder(config.latent, config.decoder_dim, config.decoder_rates, Snake)


class FishDecoderState(State):
    """The state of all convolutions is one buffer, which kernels copy in one launch; modules have views of it."""

    def __init__(self, decoder: FishCodecDecoder, slots: int) -> None:
        self.transformer = decoder.quantizer.post_module.state(slots)
        self.upsample = decoder.quantizer.upsample.state(slots)
        self.vocoder = decoder.decoder.model.state(slots)
        self.tails = join_tails([self.upsample, self.vocoder])  # [slots + 1, all tails]

    def tensors(self) -> Iterator[Tensor]:
        yield self.tails
        yield from self.transformer.tensors()


class FishSlotDecoder(Protocol):
    """Decodes slots by fused kernels."""

    def __call__(self, codes: Tensor, slots: Tensor, state: FishDecoderState) -> Tensor: ...


class FishCodecDecoder(nn.Module):
    """Decodes codes to samples. Without slots, it decodes whole sequences in one pass.

    With slots, it uses `fused` where kernels run (see `fused.py`); the modules are the reference.
    """

    def __init__(self, config: FishCodecConfig) -> None:
        super().__init__()
        self.config = config
        self.fused: FishSlotDecoder | None = None
        self.quantizer = Dequantizer(config)
        self.decoder = Vocoder(config)

    def state(self, slots: int) -> FishDecoderState:
        return FishDecoderState(self, slots)

    def forward(self, codes: Tensor, slots: Tensor | None = None, state: FishDecoderState | None = None) -> Tensor:
        """Decodes `codes [B, n, books]` to `[B, 1, n * hop]` within [-1, 1], in float32 or float64."""
        if self.fused is not None and slots is not None and state is not None and kernels.on(state.tails):
            return self.fused(codes, slots, state)
        x = self.quantizer.post_module(self.quantizer(codes), slots, state and state.transformer)
        x = self.quantizer.upsample(x.transpose(1, 2), slots, state and state.upsample)
        audio = self.decoder.model(x, slots, state and state.vocoder).tanh()
        return audio.to(torch.promote_types(audio.dtype, torch.float32))
