"""Bidirectional attention: the kernel returns what the reference returns."""

import pytest
import torch

from rhapsode.nn import kernels
from rhapsode.nn.decoder import DecoderConfig
from rhapsode.nn.kernels.heads import HeadNorm, ProjectedHeads
from rhapsode.nn.local import LocalAttention, LocalStack
from rhapsode.nn.rope import Rope, RopeConfig

CLOSE = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
SHAPES = {"two to one": (4, 2, 16, 11), "odd heads": (6, 2, 6, 5), "many tokens": (2, 2, 8, 17)}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("plain", [False, True], ids=["normed and rotated", "neither"])
def test_all_tokens_attend_to_each_other(device, dtype, shape, plain) -> None:
    heads, kv_heads, dim, length = shape
    rotary = Rope(RopeConfig(dim, 100.0, scale=1.1)).to(device)(torch.arange(length, device=device)[None], dtype)
    norm = HeadNorm(*(torch.rand(2, dim) + 0.5).to(device, dtype), 1e-6)
    qkv = torch.randn(3, length, (heads + 2 * kv_heads) * dim).to(device, dtype)
    given = ProjectedHeads(qkv, heads, kv_heads, dim, *(() if plain else (norm, rotary)))
    with kernels.use("off"):
        expected = LocalAttention().attend_heads(0, given)
    with kernels.use("always"):
        found = LocalAttention().attend_heads(0, given)
    torch.testing.assert_close(found, expected, rtol=CLOSE[dtype], atol=CLOSE[dtype])


def test_a_local_stack_on_kernels(device, dtype) -> None:
    config = DecoderConfig(16, 16, 1, 2, 1, 8, RopeConfig(8, 1000.0))
    stack = LocalStack(config, 6).to(device, dtype)
    for weight in stack.parameters():
        weight.copy_(torch.randn_like(weight) * (0.2 if weight.ndim > 1 else 1.0))
    x = torch.randn(4, 6, 16).to(device, dtype)  # 24 rows: more than one tile of them
    with kernels.use("off"):
        expected = stack.hidden_states(x.clone())
    with kernels.use("always"):
        found = stack.hidden_states(x.clone())
    torch.testing.assert_close(found, expected, rtol=8 * CLOSE[dtype], atol=8 * CLOSE[dtype])
