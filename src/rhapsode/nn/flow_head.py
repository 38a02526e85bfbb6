"""A flow-matching head: a local transformer over a few tokens predicts velocities."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from rhapsode.nn.flow import Velocity
from rhapsode.nn.linear import linear, normed_linear, weight_of
from rhapsode.nn.local import LocalStack


class KnownTokens(NamedTuple):
    """The tokens of a frame that the integration does not change, in the order the transformer sees them."""

    condition: Tensor  # [B, c, hidden]; the unconditional half of the batch has zeros instead
    times: Tensor  # [B, steps, hidden], one token per step
    context: Tensor | None = None  # [B, k, hidden], for both halves


def token_velocity(
    stack: LocalStack, into: nn.Linear, out: nn.Linear, known: KnownTokens, *, trim: bool = False
) -> Velocity:
    """Returns the function that predicts the velocity of `x [B, n, feat]`, whose tokens follow the known ones.

    Each step has its own copy of the known tokens, because its layers overwrite them. All copies are made at once.
    `trim`: the last layer computes the tokens of `x` alone. That is the same up to rounding, and less work where there
    are many rows.
    """
    condition, times, context = known
    batch, steps, dtype = len(condition), times.shape[1], into.weight.dtype
    tokens = condition.new_zeros(steps, 2, batch, stack.max_tokens, into.out_features, dtype=dtype)
    start = condition.shape[1]
    tokens[:, 0, :, :start] = condition
    tokens[:, :, :, start] = times.transpose(0, 1)[:, None]
    if context is not None:
        tokens[:, :, :, start + 1 : start + 1 + context.shape[1]] = context

    def velocity(x: Tensor, step: int) -> Tensor:
        n = x.shape[1]
        tokens[step, :, :, -n:] = linear(x.to(dtype), into)
        every = tokens[step].flatten(0, 1)
        hidden = stack.last_hidden_states(every, n) if trim else stack.hidden_states(every)[:, -n:].contiguous()
        return normed_linear(hidden, stack.norm, weight_of(out), out.bias)

    return velocity
