"""A flow head's tokens: where they are, which half of the batch has a condition, and what may be left out."""

import pytest
import torch
from torch import nn

from rhapsode.nn.decoder import DecoderConfig
from rhapsode.nn.derived import derive
from rhapsode.nn.flow_head import KnownTokens, token_velocity
from rhapsode.nn.local import LocalStack

HIDDEN, FEAT, STEPS, BATCH = 16, 3, 2, 4


def make(tokens: int, layers: int = 2) -> tuple[LocalStack, nn.Linear, nn.Linear]:
    torch.manual_seed(0)
    config = DecoderConfig(HIDDEN, 24, layers, heads=4, kv_heads=2, head_dim=6, rope=None)
    parts = LocalStack(config, tokens), nn.Linear(FEAT, HIDDEN), nn.Linear(HIDDEN, FEAT)
    for part in parts:
        part.double().requires_grad_(False)
        derive(part)
    return parts


def known(context: int) -> KnownTokens:
    def some(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.float64)

    return KnownTokens(
        some(BATCH, 2, HIDDEN), some(BATCH, STEPS, HIDDEN), some(BATCH, context, HIDDEN) if context else None
    )


@pytest.mark.parametrize("trim", [False, True])
@pytest.mark.parametrize(("context", "n", "layers"), [(0, 1, 1), (3, 2, 2)])
def test_a_velocity_is_the_stack_s_over_all_tokens(context: int, n: int, layers: int, trim: bool) -> None:
    stack, into, out = make(2 + 1 + context + n, layers)
    tokens, x = known(context), torch.randn(BATCH, n, FEAT, dtype=torch.float64)
    velocity = token_velocity(stack, into, out, tokens, trim=trim)
    for step in range(STEPS):
        halves = []
        for condition in (tokens.condition, torch.zeros_like(tokens.condition)):
            rest = [] if tokens.context is None else [tokens.context]
            every = torch.cat((condition, tokens.times[:, step : step + 1], *rest, into(x)), dim=1)
            halves.append(out(stack.norm(stack.hidden_states(every.clone()))[:, -n:]))
        torch.testing.assert_close(velocity(x, step), torch.cat(halves), rtol=0, atol=1e-7)
