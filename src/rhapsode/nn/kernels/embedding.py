"""The sum of the embeddings of a frame's codes: the talker's input for its previous frame."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from rhapsode.nn import kernels


def frame_sum(codes: Tensor, first: Tensor, others: Tensor) -> Tensor:
    """Sums the rows of `codes [B, 1 + books]` in `first [V, width]` and `others [books, size, width]`: [B, width].

    A negative code adds nothing.
    """
    if kernels.on(first):
        from rhapsode.nn.kernels.gpu import embedding

        return embedding.frame_sum(codes, first, others)
    return frame_sum_reference(codes, first, others)


def frame_sum_reference(codes: Tensor, first: Tensor, others: Tensor) -> Tensor:
    books, size, _ = others.shape
    first_row = torch.arange(0, books * size, size, device=codes.device)
    known, codes = (codes >= 0)[..., None], codes.clamp(min=0)
    rest = F.embedding(codes[:, 1:] + first_row, others.flatten(0, 1)) * known[:, 1:]
    return F.embedding(codes[:, 0], first) * known[:, 0] + rest.sum(1)
