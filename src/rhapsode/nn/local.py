"""A local transformer: bidirectional attention of a few tokens, without a KV cache."""

from __future__ import annotations

from torch import Tensor

from rhapsode.nn.attention import FusedAttentionBackend
from rhapsode.nn.fixed_positions import FixedPositionStack
from rhapsode.nn.kernels.attention import attention, local_attention
from rhapsode.nn.kernels.heads import ProjectedHeads
from rhapsode.nn.kernels.linear import small_batch_limit

SMALL_BATCH = 32
"""Up to this many tokens in all rows the small-batch kernel beats several around cuBLAS: those of one request."""


class LocalAttention(FusedAttentionBackend):
    """Every token attends to every token of its pass, before and after it. Nothing is stored."""

    def attend_heads(self, layer: int, heads: ProjectedHeads) -> Tensor:
        attended = local_attention(heads)
        return super().attend_heads(layer, heads) if attended is None else attended

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return attention(query, key, value)


class LocalStack(FixedPositionStack):
    """Bidirectional layers over `max_tokens` tokens."""

    def hidden_states(self, x: Tensor) -> Tensor:
        """Runs `x [N, max_tokens, hidden]`, which may be overwritten, up to the final norm, which is left out."""
        with small_batch_limit(SMALL_BATCH):
            return self.run_layers(x, self.all_angles(x.dtype), LocalAttention())
