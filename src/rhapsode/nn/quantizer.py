"""Codes to vectors and back: residual vector quantization, and finite scalar quantization."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Codebook(nn.Module):
    """Code vectors as training leaves them: running sums of what fell on each code, and how often."""

    cluster_usage: Tensor  # [K]

    def __init__(self, codes: int, dim: int, sums: str = "embedding_sum") -> None:
        super().__init__()
        self._sums = sums
        self.register_buffer("cluster_usage", torch.ones(codes))
        self.register_buffer(sums, torch.zeros(codes, dim))

    def vectors(self, least_usage: float = 1e-5) -> Tensor:
        sums: Tensor = getattr(self, self._sums)
        return sums / self.cluster_usage.clamp(min=least_usage)[:, None]  # [K, D]


def stack(codebooks: Iterable[Codebook]) -> Tensor:
    """The tables of a residual quantizer, [G, K, D]."""
    return torch.stack([codebook.vectors() for codebook in codebooks])


def rvq_decode(codes: Tensor, tables: Tensor) -> Tensor:
    """The sum of every book's vector: `codes [..., G]` to `[..., D]`. A code past the end of its book is an error."""
    books = torch.arange(tables.shape[0], device=codes.device)
    return tables[books, codes].sum(-2)


def rvq_encode(vectors: Tensor, tables: Tensor) -> Tensor:
    """Book by book the code nearest to what the books before left over: `vectors [N, D]` to `[N, G]`."""
    residual, codes = vectors, []
    for table in tables:  # [K, D]
        distance = table.square().sum(-1) - 2 * (residual @ table.T)  # squared, short of a term all codes share
        code = distance.argmin(-1)
        codes.append(code)
        residual = residual - F.embedding(code, table)
    return torch.stack(codes, dim=-1)


def fsq_decode(codes: Tensor, levels: Sequence[int]) -> Tensor:
    """Finite scalar quantization: `codes [...]`, mixed-radix numbers with the first digit least, to `[..., D]`.

    A digit of `L` levels stands for `(digit - L // 2) / (L // 2)`.
    """
    base = torch.tensor(levels, device=codes.device)
    place = F.pad(base[:-1].cumprod(0), (1, 0), value=1)
    half = base // 2
    return (codes[..., None] // place % base - half) / half
