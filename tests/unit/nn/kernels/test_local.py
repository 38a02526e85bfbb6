"""Bidirectional attention: the kernel returns what the reference returns."""

import pytest
import torch

from rhapsode.nn import kernels
from rhapsode.nn.decoder import DecoderConfig
from rhapsode.nn.kernels.heads import HeadNorm, ProjectedHeads
from rhapsode.nn.kernels.norm import rms_norm
from rhapsode.nn.kernels.split import add_and_norm, split_product
from rhapsode.nn.kernels.weight import Norm
from rhapsode.nn.local import LocalAttention, LocalStack
from rhapsode.nn.rope import Rope, RopeConfig
from rhapsode.nn.split_layers import runs_split

CLOSE = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
SHAPES = {"two to one": (4, 2, 16, 11), "odd heads": (6, 2, 6, 5), "many tokens": (2, 2, 8, 17)}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("plain", [False, True], ids=["normed and rotated", "neither"])
@pytest.mark.parametrize("shared", [False, True], ids=["a head at a time", "a group at a time"])
def test_all_tokens_attend_to_each_other(device, dtype, shape, plain, shared, monkeypatch) -> None:
    if shared:
        monkeypatch.setattr("rhapsode.nn.kernels.gpu.local.MULTIPROCESSORS", 0)
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


@pytest.mark.parametrize("tokens", [3, 11])
def test_a_stack_of_a_few_dozen_rows_by_split_products(device, dtype, tokens) -> None:
    config = DecoderConfig(24, 1024, 2, 4, 2, 128, RopeConfig(128, 1000.0))
    stack = LocalStack(config, tokens).to(device, dtype)
    for weight in stack.parameters():
        weight.copy_(torch.randn_like(weight) * (0.05 if weight.ndim > 1 else 1.0))
    x = torch.randn(-(-17 // tokens), tokens, 24).to(device, dtype)
    with kernels.use("off"):
        assert not runs_split(stack, x)
        expected = stack.hidden_states(x.clone())
    with kernels.use("always"):
        assert runs_split(stack, x)
        found = stack.hidden_states(x.clone())
        assert not runs_split(stack, x[:1])
    torch.testing.assert_close(found, expected, rtol=8 * CLOSE[dtype], atol=8 * CLOSE[dtype])


def test_partial_products_and_their_sum(device) -> None:
    x, weight, residual = (torch.randn(*shape, device=device) for shape in ((20, 1024), (40, 1024), (20, 40)))
    norm = Norm(torch.rand(40, device=device) + 0.5, 1e-6)
    expected = residual + x @ weight.T
    for mode in ("off", "always"):
        with kernels.use(mode):
            parts, held = split_product(x, weight), residual.clone()
            assert parts.shape == (2, 20, 40)
            normed = add_and_norm(held, parts, norm)
            torch.testing.assert_close(held, expected, rtol=1e-4, atol=1e-3)
            torch.testing.assert_close(normed, rms_norm(expected, *norm[:2]), rtol=1e-4, atol=1e-4)
            again = add_and_norm(held, parts, None)
            assert again is held
            torch.testing.assert_close(held, expected + x @ weight.T, rtol=1e-4, atol=1e-3)
