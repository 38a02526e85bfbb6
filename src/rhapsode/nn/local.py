"""A local transformer: bidirectional attention of a few tokens, without a KV cache."""

from __future__ import annotations

from torch import Tensor

from rhapsode.nn.attention import FusedAttentionBackend
from rhapsode.nn.decoder import DecoderLayer
from rhapsode.nn.fixed_positions import FixedPositionStack
from rhapsode.nn.kernels.attention import attention, local_attention
from rhapsode.nn.kernels.heads import ProjectedHeads
from rhapsode.nn.split_layers import run_split, runs_split


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
        """Returns the hidden states of `x [N, max_tokens, hidden]` before the final norm; `x` may be overwritten."""
        given = (x, self.all_angles(x.dtype), LocalAttention())
        return run_split(self, *given) if runs_split(self, x) else self.run_layers(*given)

    def last_hidden_states(self, x: Tensor, last: int) -> Tensor:
        """Does the same for the last tokens alone, [N, last, hidden]: the last layer does not compute the others."""
        angles, backend = self.all_angles(x.dtype), LocalAttention()
        *before, final = self.layers
        for i, layer in enumerate(before):
            x = layer(x, i, angles, backend)
        assert isinstance(final, DecoderLayer)
        return final.last_tokens(x, last, len(before), angles, backend)
