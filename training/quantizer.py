"""A trainable split residual quantizer: code vectors are running means of the vectors assigned to them.

The means are stored as in the codec's layout: sums and counts in the decoder's codebooks.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.models.qwen3_tts.decoder import CodecDecoder
from rhapsode.models.qwen3_tts.encoder import CodecEncoder
from rhapsode.nn.quantizer import Codebook

DECAY = 0.99
DEAD = 0.03
"""A code used less than this share of the mean is given a new place."""


class Quantized(NamedTuple):
    vectors: Tensor  # [B, F, codebook_dim], what the decoder reads
    content: Tensor  # [B, F, D], the first book's alone
    commitment: Tensor
    codes: Tensor  # [B, F, G]


class LearningQuantizer(nn.Module):
    revives: Tensor

    def __init__(self, encoder: CodecEncoder, decoder: CodecDecoder) -> None:
        super().__init__()
        into, out = encoder.quantizer, decoder.quantizer
        self._into = [into.semantic_residual_vector_quantizer, into.acoustic_residual_vector_quantizer]
        self._out = [out.rvq_first, out.rvq_rest]
        self._books = [[book._codebook for book in part.vq.layers] for part in self._out]
        self.learned = False
        """Before `begin`, vectors pass as they are."""
        self.register_buffer("revives", torch.ones((), dtype=torch.bool), persistent=False)

    def forward(self, features: Tensor, learn: bool = True) -> Quantized:
        """`features [B, F, hidden]` in float32."""
        vectors, commitment, codes, contents = 0.0, features.new_zeros(()), [], []
        for into, out, books in zip(self._into, self._out, self._books, strict=True):
            x = F.linear(features, into.input_proj.weight[..., 0])
            if self.learned:
                quantized, loss, chosen = _residual(x.flatten(0, 1), books, learn, self.revives)
                commitment = commitment + loss
                codes += [code.view(features.shape[:2]) for code in chosen]
                x = x + (quantized.view_as(x) - x).detach()
            contents.append(x)
            vectors = vectors + F.linear(x, out.output_proj.weight[..., 0])
        return Quantized(vectors, contents[0], commitment, torch.stack(codes, -1) if codes else torch.empty(0))

    @torch.no_grad()
    def begin(self, features: Tensor, rounds: int = 12) -> None:
        """Initialises the code vectors from `features [N, hidden]`, codebook by codebook."""
        for into, books in zip(self._into, self._books, strict=True):
            residual = F.linear(features, into.input_proj.weight[..., 0])
            for book in books:
                vectors = _means(residual, len(book.cluster_usage), rounds)
                book.embedding_sum.copy_(vectors)
                book.cluster_usage.fill_(1.0)
                residual = residual - vectors[_nearest(residual, vectors)]
        self.learned = True

    @torch.no_grad()
    def share(self) -> None:
        """Copies the decoder's code vectors to the encoder, as sums with a count of one."""
        for into, books in zip(self._into, self._books, strict=True):
            for theirs, book in zip(into.layers, books, strict=True):
                vectors = book.vectors()
                book.embedding_sum.copy_(vectors)
                book.cluster_usage.fill_(1.0)
                theirs.codebook.embed_sum.copy_(vectors)
                theirs.codebook.cluster_usage.fill_(1.0)


def _residual(x: Tensor, books: list[Codebook], learn: bool, revives: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Returns the sum of the nearest code vectors of `x [N, D]`, the commitment loss, and the codes."""
    rest, codes, loss = x, [], x.new_zeros(())
    for book in books:
        vectors = book.vectors()
        code = _nearest(rest.detach(), vectors)
        chosen = F.embedding(code, vectors)
        loss = loss + F.mse_loss(rest, chosen)
        if learn:
            _follow(book, rest.detach(), code, revives)
        rest = rest - chosen
        codes.append(code)
    return (x - rest).detach(), loss, codes


@torch.no_grad()
def _nearest(x: Tensor, vectors: Tensor) -> Tensor:
    return (vectors.square().sum(-1) - 2 * (x @ vectors.T)).argmin(-1)


def _counted(code: Tensor, count: int, dtype: torch.dtype) -> Tensor:
    """One-hot of `code [N]`, `[N, K]`; a graph can capture it."""
    return (code[:, None] == torch.arange(count, device=code.device)).to(dtype)


@torch.no_grad()
def _follow(book: Codebook, x: Tensor, code: Tensor, revives: Tensor) -> None:
    usage, sums = book.cluster_usage, book.embedding_sum
    share = len(x) / len(usage)  # counts are kept as multiples of an even share
    fell = _counted(code, len(usage), x.dtype)
    usage.lerp_(fell.sum(0) / share, 1 - DECAY)
    sums.lerp_(fell.T @ x / share, 1 - DECAY)
    dead = (usage < DEAD) & revives
    others = x[torch.randint(len(x), (len(usage),), device=x.device)]
    sums.copy_(torch.where(dead[:, None], others, sums))
    usage.copy_(torch.where(dead, 1.0, usage))


def _means(x: Tensor, count: int, rounds: int) -> Tensor:
    """Returns `count` k-means centres of `x [N, D]`."""

    def some() -> Tensor:
        return x[torch.randint(len(x), (count,), device=x.device)]

    means = some()
    for _ in range(rounds):
        fell = _counted(_nearest(x, means), count, x.dtype)
        used = fell.sum(0)[:, None]
        means = torch.where(used > 0, fell.T @ x / used.clamp(min=1), some())
    return means
