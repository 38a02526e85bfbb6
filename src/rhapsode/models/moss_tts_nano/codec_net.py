"""The codec's networks, with the checkpoint's names: codes to samples and back, by transformers at rising token rates.

Everything is per position or causal attention over a window: there is no look-ahead and no convolution.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from rhapsode.models.moss_tts_nano.codec_config import LevelConfig, MossCodecConfig, MossQuantizerConfig, Step
from rhapsode.nn.derived import Derived
from rhapsode.nn.linear import linear
from rhapsode.nn.streaming import ChainState, Streaming, StreamingChain
from rhapsode.nn.windowed import WindowedTransformer, WindowState

_PIECE = 16  # frames of a reference run at a time: bounds the memory of a long one


class Unpatch(nn.Module):
    """Multiplies the token rate: channel `c * size + j` at time t becomes channel c at time `t * size + j`."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.size)).transpose(2, 3).flatten(1, 2)  # [B, T * size, C / size]


class Patch(nn.Module):
    """The inverse of `Unpatch`."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        return x.unflatten(1, (-1, self.size)).transpose(2, 3).flatten(2)  # [B, T / size, C * size]


class Level(Streaming):
    """A windowed transformer between two projections."""

    def __init__(self, config: LevelConfig, window: int) -> None:
        super().__init__()
        self.input_proj = nn.Linear(config.input_dimension, config.d_model, bias=False)
        self.transformer = WindowedTransformer(config.layers(), window)
        self.output_proj = nn.Linear(config.d_model, config.output_dimension, bias=False)

    def state(self, slots: int) -> WindowState:
        return self.transformer.state(slots)

    def forward(self, x: Tensor, slots: Tensor | None = None, state: WindowState | None = None) -> Tensor:
        return linear(self.transformer(linear(x, self.input_proj), slots, state), self.output_proj)


def chain(steps: Sequence[Step], windows: Sequence[int], patch: type[nn.Module]) -> StreamingChain:
    pairs = zip(steps, windows, strict=True)
    return StreamingChain(*(patch(step) if isinstance(step, int) else Level(step, window) for step, window in pairs))


class Book(nn.Module):
    """One codebook. Its vectors are narrower than those to quantize; projections connect the two."""

    def __init__(self, config: MossQuantizerConfig) -> None:
        super().__init__()
        self.in_proj = nn.Linear(config.rvq_dim, config.codebook_dim)
        self.out_proj = nn.Linear(config.codebook_dim, config.rvq_dim)
        self.codebook = nn.Embedding(config.codebook_size, config.codebook_dim)

    def vectors(self) -> Tensor:
        """Returns the vector that each code adds, [codes, rvq_dim]."""
        vectors: Tensor = self.out_proj(self.codebook.weight)
        return vectors


class MossQuantizer(nn.Module):
    def __init__(self, config: MossQuantizerConfig) -> None:
        super().__init__()
        self.input_proj = nn.Linear(config.input_dim, config.rvq_dim)
        self.output_proj = nn.Linear(config.rvq_dim, config.output_dim)
        self.quantizers = nn.ModuleList(Book(config) for _ in range(config.num_quantizers))


class MossCodecDecoder(Derived):
    """Decodes codes to samples."""

    tables: (
        Tensor  # [books * (codes + 1), rvq_dim], once derived: a row of zeros after each codebook stands for no code
    )

    def __init__(self, config: MossCodecConfig) -> None:
        super().__init__()
        self.config = config
        self.quantizer = MossQuantizer(config.quantizer)
        self.decoder = chain(config.decoder, config.decoder_windows, Unpatch)
        self.register_buffer("tables", None, persistent=False)

    def derive(self) -> None:
        """Projects every code once, and frees what only the encoder needs."""
        if hasattr(self.quantizer, "quantizers"):
            vectors = torch.stack([book.vectors() for book in self.quantizer.quantizers if isinstance(book, Book)])
            self.tables = F.pad(vectors, (0, 0, 0, 1)).flatten(0, 1)
            del self.quantizer.quantizers, self.quantizer.input_proj

    def state(self, slots: int) -> ChainState:
        return self.decoder.state(slots)

    def forward(self, codes: Tensor, slots: Tensor | None = None, state: ChainState | None = None) -> Tensor:
        """Decodes `codes [B, n, books]` to `[B, channels, n * hop]`. The number after the last code means no code."""
        size = self.config.quantizer.codebook_size + 1
        first_row = torch.arange(0, size * codes.shape[2], size, device=codes.device)
        vectors = F.embedding(codes + first_row, self.tables).sum(2)
        x = self.decoder(linear(vectors, self.quantizer.output_proj), slots, state)  # [B, n * hop * channels, 1]
        return x.view(x.shape[0], -1, self.config.number_channels).transpose(1, 2)


class MossCodecEncoder(nn.Module):
    """Encodes samples as codes."""

    def __init__(self, config: MossCodecConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = chain(config.encoder, config.encoder_windows, Patch)
        self.quantizer = MossQuantizer(config.quantizer)

    @torch.no_grad()
    def encode(self, samples: NDArray[np.float32]) -> NDArray[np.int64]:
        """Encodes `[channels, n]` to `[F, books]`; an incomplete last frame is left out."""
        weight = self.quantizer.input_proj.weight
        hop, channels = self.config.hop, self.config.number_channels
        frames = samples.shape[1] // hop
        interleaved = torch.from_numpy(samples[:, : frames * hop].T.copy()).to(weight).view(1, -1, 1)
        slots, state = torch.zeros(1, dtype=torch.int64, device=weight.device), self.encoder.state(1)
        codes = [
            self.quantize(self.encoder(piece, slots, state)[0]) for piece in self._pieces(interleaved, hop, channels)
        ]
        books = self.config.quantizer.num_quantizers
        found = torch.cat(codes).cpu() if codes else torch.zeros(0, books, dtype=torch.int64)
        result: NDArray[np.int64] = found.numpy()
        return result

    @staticmethod
    def _pieces(interleaved: Tensor, hop: int, channels: int) -> Sequence[Tensor]:
        return interleaved.split(_PIECE * hop * channels, dim=1) if interleaved.shape[1] else ()

    def quantize(self, latents: Tensor) -> Tensor:
        """Finds, codebook by codebook, the code whose direction is nearest: `[F, input_dim]` to `[F, books]`."""
        residual, codes = self.quantizer.input_proj(latents), []
        for book in self.quantizer.quantizers:
            assert isinstance(book, Book)
            code = (F.normalize(book.in_proj(residual)) @ F.normalize(book.codebook.weight).T).argmax(-1)
            residual = residual - book.out_proj(book.codebook(code))
            codes.append(code)
        return torch.stack(codes, dim=-1)
