"""Residual vector quantization: codes to vectors and back."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Codebook(nn.Module):
    """Code vectors as a checkpoint stores them: running sums per code, and counts."""

    cluster_usage: Tensor  # [K]

    def __init__(self, codes: int, dim: int, sums: str = "embedding_sum") -> None:
        super().__init__()
        self._sums = sums
        self.register_buffer("cluster_usage", torch.ones(codes))
        self.register_buffer(sums, torch.zeros(codes, dim))

    def vectors(self) -> Tensor:
        sums: Tensor = getattr(self, self._sums)
        return sums / self.cluster_usage.clamp(min=1e-5)[:, None]  # [K, D]


def stack(codebooks: Iterable[Codebook]) -> Tensor:
    """Returns the tables of a residual quantizer, [G, K, D]."""
    return torch.stack([codebook.vectors() for codebook in codebooks])


def rvq_decode(codes: Tensor, tables: Tensor) -> Tensor:
    """Sums one vector per codebook: `codes [..., G]` to `[..., D]`. A code out of range is an error."""
    books = torch.arange(tables.shape[0], device=codes.device)
    return tables[books, codes].sum(-2)


def rvq_encode(vectors: Tensor, tables: Tensor) -> Tensor:
    """Returns the codes `[N, G]` of `vectors [N, D]`: for each codebook in turn, the code nearest to the residual."""
    residual, codes = vectors, []
    for table in tables:  # [K, D]
        distance = table.square().sum(-1) - 2 * (residual @ table.T)  # squared, without the term that all codes share
        code = distance.argmin(-1)
        codes.append(code)
        residual = residual - F.embedding(code, table)
    return torch.stack(codes, dim=-1)
