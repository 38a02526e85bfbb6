"""A local transformer: a few tokens that all see each other, and nothing that outlasts them."""

from __future__ import annotations

from torch import Tensor

from rhapsode.nn.attention import FusedMemory
from rhapsode.nn.heads import Heads
from rhapsode.nn.kernels.attention import attention, local_attention
from rhapsode.nn.kernels.linear import few_rows
from rhapsode.nn.short import ShortStack

MOST_TOKENS = 32
"""Up to so many, each of all rows counted, a kernel of its own is faster than several around cuBLAS: one request's."""


class Together(FusedMemory):
    """No memory at all: every token looks at every token of this pass, before and after it."""

    def attend_heads(self, layer: int, heads: Heads) -> Tensor:
        seen = local_attention(heads)
        return super().attend_heads(layer, heads) if seen is None else seen

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return attention(query, key, value)


class LocalStack(ShortStack):
    """`[N, most, hidden]`, which is given up, to hidden states of the same shape, before the last norm."""

    def see(self, x: Tensor) -> Tensor:
        with few_rows(MOST_TOKENS):
            return self.run(x, self.turns(x.dtype), Together())
