"""The codec's decoder: frames of codes to a waveform; every chunk schedule gives the same samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.device.state import State
from rhapsode.models.higgs.codec.settings import CodecSettings
from rhapsode.nn import kernels
from rhapsode.nn.derived import Derived
from rhapsode.nn.quantizer import rvq_decode
from rhapsode.nn.snake import Snake
from rhapsode.nn.symmetric import SymmetricVocoder


class HiggsVectors(nn.Module):
    """The vectors of a codebook, as the checkpoint nests them."""

    def __init__(self, settings: CodecSettings) -> None:
        super().__init__()
        self.embed = nn.Parameter(torch.empty(settings.codebook_size, settings.codebook_dim))


class HiggsBook(nn.Module):
    """A codebook and the projection of its vectors."""

    def __init__(self, settings: CodecSettings) -> None:
        super().__init__()
        self.codebook = HiggsVectors(settings)
        self.project_out = nn.Linear(settings.codebook_dim, settings.latent)


class HiggsDequantizer(nn.Module):
    def __init__(self, settings: CodecSettings) -> None:
        super().__init__()
        self.quantizers = nn.ModuleList(HiggsBook(settings) for _ in range(settings.quantizers))


class HiggsDecoderState(State):
    def __init__(self, decoder: HiggsDecoder, slots: int) -> None:
        self.vocoder = decoder.vocoder.state(slots)

    def tensors(self) -> Iterator[Tensor]:
        yield from self.vocoder.tensors()


class HiggsSlotDecoder(Protocol):
    """Decodes slots by fused kernels."""

    def __call__(self, codes: Tensor, present: Tensor, slots: Tensor, state: HiggsDecoderState) -> Tensor: ...


class HiggsDecoder(Derived):
    """Decodes codes to samples: a sum of one vector per codebook, then the vocoder; they are `lookahead` frames late.

    It uses `fused` where kernels run (see `fused.py`); the modules are the reference. As upstream, it does not limit
    samples to [-1, 1].
    """

    tables: Tensor  # [books, codes, hidden]

    def __init__(self, settings: CodecSettings) -> None:
        super().__init__()
        self.settings = settings
        self.fused: HiggsSlotDecoder | None = None
        acoustic = settings.acoustic
        self.quantizer = HiggsDequantizer(settings)
        self.fc2 = nn.Linear(settings.latent, acoustic.hidden_size)
        self.vocoder = SymmetricVocoder(
            acoustic.hidden_size, acoustic.decoder_hidden_size, acoustic.upsampling_ratios, Snake
        )
        self.register_buffer("tables", None, persistent=False)

    @property
    def lookahead(self) -> int:
        """The number of later frames that a frame's samples depend on; samples are late by as many frames."""
        return self.vocoder.lookahead

    def derive(self) -> None:
        """Projects every code once, so that a frame is a sum of rows: both projections are linear."""
        books = [book for book in self.quantizer.quantizers if isinstance(book, HiggsBook)]
        wide = torch.promote_types(self.fc2.weight.dtype, torch.float32)
        into, bias = self.fc2.weight.to(wide), self.fc2.bias.to(wide)
        tables = []
        for book in books:
            out = book.project_out
            vectors = F.linear(book.codebook.embed.to(wide), out.weight.to(wide), out.bias.to(wide))
            tables.append(F.linear(vectors, into, bias / len(books)))
        self.tables = torch.stack(tables).to(self.fc2.weight.dtype)

    def state(self, slots: int) -> HiggsDecoderState:
        return HiggsDecoderState(self, slots)

    def forward(self, codes: Tensor, present: Tensor, slots: Tensor, state: HiggsDecoderState) -> Tensor:
        """Decodes the next `codes [B, n, books]` of these slots to `[B, 1, n * hop]`, in float32 or float64.

        `present [B, n]` is false for frames after the end, which flush the samples that are late. A code that is out
        of range counts as the nearest one.
        """
        if self.fused is not None and kernels.on(state.vocoder.tails):
            return self.fused(codes, present, slots, state)
        vectors = rvq_decode(codes.long().clamp(0, self.settings.codebook_size - 1), self.tables)
        audio = self.vocoder(vectors.transpose(1, 2), present, slots, state.vocoder)
        return audio.to(torch.promote_types(audio.dtype, torch.float32))
