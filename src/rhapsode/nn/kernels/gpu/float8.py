"""Linear layers of many rows with 8-bit weights, which tensor cores multiply unconverted: see `gpu.float8_input`.

If a layer has few programs, the inputs of its sums are cut into shares, and the next kernel adds up the partial sums,
in their order. For any number of rows, these kernels may start while the previous kernel still runs.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rhapsode.nn.kernels.activation import Gelu
from rhapsode.nn.kernels.gpu.activation import gelu, silu_times
from rhapsode.nn.kernels.gpu.float8_input import Float8Input, float8_input
from rhapsode.nn.kernels.gpu.launch import blocks, options, wait_for_previous
from rhapsode.nn.kernels.gpu.split import add_and_norm
from rhapsode.nn.kernels.gpu.tile_plan import TilePlan, tile_plan
from rhapsode.nn.kernels.norm import normalise
from rhapsode.nn.kernels.weight import Float8Weight, Norm

EXACT_ROWS = 128
"""Up to this many rows sums are float32. Above, they stay in the tensor cores' registers, which keep fewer bits of
8-bit products: an error of 0.1 to 0.2% (root mean square), as much as rounding to bfloat16 has, and 10 to 15% less
time."""


@triton.jit(do_not_specialize=["rows"])
def _float8(
    halves, row_scale, weight, scale, bias, residual, out, rows, width,
    K: tl.constexpr, SHARE: tl.constexpr, LINES: tl.constexpr, ROWS: tl.constexpr, BLOCK_K: tl.constexpr,
    GATED: tl.constexpr, GELU: tl.constexpr, BIAS: tl.constexpr, RESIDUAL: tl.constexpr,
    EXACT: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)  # programs of the same weights follow each other
    share = tl.program_id(2)
    outputs: tl.constexpr = LINES // 2 if GATED else LINES
    first = tl.program_id(1) * outputs
    line = tl.arange(0, LINES)  # of a gated layer: gates, then values
    sources = tl.minimum(first + line % outputs, width - 1) + line // outputs * width
    # Padding rows read the first rows again. If all of them read the last row, these reads would wait for each other.
    half = (tl.program_id(0) * ROWS * 2 + tl.arange(0, ROWS * 2)) % (rows * 2)
    at = share * SHARE + tl.arange(0, BLOCK_K)
    inputs = halves + half.to(tl.int64)[:, None] * K + at[None, :]
    weights = weight + sources.to(tl.int64)[:, None] * K + at[None, :]
    sums = tl.zeros((LINES, ROWS * 2), tl.float32)
    wait_for_previous(OVERLAP)
    for start in range(0, SHARE, BLOCK_K):
        if SHARE % BLOCK_K == 0:
            columns, tile = tl.load(inputs + start), tl.load(weights + start)
        else:
            inside = (start + at < K)[None, :]
            columns = tl.load(inputs + start, mask=inside, other=0.0)
            tile = tl.load(weights + start, mask=inside, other=0.0)
        if EXACT:
            sums += tl.dot(tile, columns.T)
        else:
            sums = tl.dot(tile, columns.T, sums)
    high, low = tl.split(tl.reshape(sums, (LINES, ROWS, 2)))
    row_scales = tl.load(row_scale + tl.minimum(row, rows - 1))
    sums = (high + low) * (tl.load(scale + sources)[:, None] * row_scales[None, :])
    if BIAS:
        sums += tl.load(bias + sources).to(tl.float32)[:, None]
    output = first + tl.arange(0, outputs)
    where = (share * rows + row).to(tl.int64)[None, :] * width + output[:, None]
    stored = (row < rows)[None, :] & (output < width)[:, None]
    result = sums.to(out.dtype.element_ty)
    if GATED:
        gate, value = tl.split(tl.permute(tl.reshape(result, (2, outputs, ROWS)), (1, 2, 0)))
        result = silu_times(gate, value)
    if GELU > 0:
        result = gelu(result, GELU == 2)
    if RESIDUAL:
        before = tl.load(residual + where, mask=stored, other=0.0)
        result = (before.to(tl.float32) + result.to(tl.float32)).to(before.dtype)
    tl.store(out + where, result, mask=stored)


def _launch(
    x: Float8Input,
    weight: Float8Weight,
    out: Tensor,
    plan: TilePlan,
    bias: Tensor | None = None,
    gated: bool = False,
    activation: Gelu | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    (rows, _, k), width = x.halves.shape, out.shape[-1]
    outputs = plan.lines // 2 if gated else plan.lines
    _float8[(blocks(rows, plan.rows), blocks(width, outputs), plan.shares)](
        *x, weight.values, weight.scales, out if bias is None else bias, out if residual is None else residual, out,
        rows, width,
        K=k, SHARE=k // plan.shares, LINES=plan.lines, ROWS=plan.rows, BLOCK_K=plan.block_k, GATED=gated,
        GELU=0 if activation is None else 2 if activation == "gelu_tanh" else 1, BIAS=bias is not None,
        RESIDUAL=residual is not None, EXACT=rows <= EXACT_ROWS, num_warps=plan.warps, num_stages=plan.stages,
        **options(rows, rows),
    )  # fmt: skip
    return out


def float8_product(
    x: Float8Input,
    weight: Float8Weight,
    dtype: torch.dtype,
    bias: Tensor | None = None,
    gated: bool = False,
    activation: Gelu | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    """Multiplies `x` by the weight, and does with the product what `fused_linear` does: [rows, N] in `dtype`."""
    outputs, k = weight.values.shape
    width, rows = outputs // 2 if gated else outputs, len(x.halves)
    out = torch.empty(rows, width, dtype=dtype, device=weight.values.device)
    return _launch(x, weight, out, tile_plan(rows, width, k, gated, False), bias, gated, activation, residual)


def float8_add(residual: Tensor, x: Float8Input, weight: Float8Weight) -> Tensor | None:
    """Multiplies `x` and adds the product to a contiguous `residual [..., N]`, in place.

    If the inputs are cut into shares, it returns partial sums `[shares, rows, N]` in float32, which remain to be added.
    """
    (width, k), rows = weight.values.shape, len(x.halves)
    plan = tile_plan(rows, width, k, False, True)
    if plan.shares == 1:
        _launch(x, weight, residual.view(rows, width), plan, residual=residual)
        return None
    out = torch.empty(plan.shares, rows, width, dtype=torch.float32, device=weight.values.device)
    return _launch(x, weight, out, plan)


def float8_linear(
    x: Tensor,
    weight: Float8Weight,
    bias: Tensor | None = None,
    *,
    norm: Norm | None = None,
    gated: bool = False,
    activation: Gelu | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    """Does what `fused_linear` does, for a contiguous `x [..., K]`."""
    if norm is not None and norm.bias is not None:
        x, norm = normalise(x, norm), None
    given = float8_input(x, norm)
    if residual is not None and residual.is_contiguous() and bias is None and activation is None and not gated:
        parts = float8_add(residual, given, weight)
        return residual if parts is None else add_and_norm(residual, parts, None)
    residual = None if residual is None else residual.contiguous()
    product = float8_product(given, weight, x.dtype, bias, gated, activation, residual)
    return product.view(*x.shape[:-1], -1)
