"""Products with 8-bit integer weights on a CPU, where reading weights takes most of the time of a decode step."""

from __future__ import annotations

import itertools
import warnings
import weakref
from functools import cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

FEW_ROWS = 4
"""Up to this many rows are multiplied by 8-bit weights. With more rows, arithmetic takes most of the time."""
LARGEST = 127

_torch: Any = torch  # its types say less than there is
_ops: Any = torch.ops
_dynamic = _ops.quantized.linear_dynamic.default
_packed: dict[int, Any] = {}  # by handle
_handles = itertools.count()
_library = torch.library.Library("rhapsode", "DEF")
_library.define("int8_linear(Tensor x, int handle) -> Tensor")


class Int8Weight(NamedTuple):
    """A weight `[N, K]` as 8-bit integers with a scale per output, the handle of the same integers packed for PyTorch,
    and the same numbers as a dense tensor of floats."""

    handle: int
    dense: Tensor  # [N, K]
    values: Tensor  # [N, K]
    scales: Tensor  # [N], float32


def _multiply(x: Tensor, handle: int) -> Tensor:
    packed = _packed[handle]
    if x.numel() == x.shape[-1] and x.dtype == torch.float32:
        return _multiply_row(x.reshape(1, -1), packed).view(*x.shape[:-1], -1)
    # Row by row: activations are quantised with one scale for all rows, and rows must not depend on each other.
    rows = x.float().reshape(-1, x.shape[-1]).split(1)
    return torch.cat([_multiply_row(row, packed) for row in rows]).view(*x.shape[:-1], -1).to(x.dtype)


def _multiply_row(row: Tensor, packed: Any) -> Tensor:
    floats: Any = _torch._weight_int8pack_mm
    made: Tensor = _dynamic(row, packed, not _has_vnni()) if _has_avx2() else floats(row, *packed)
    return made


# A trace cannot hold packed weights, so they are found by a number. A trace can hold a number.
_library.impl("int8_linear", _multiply, "CPU")


def pack(values: Tensor, scales: Tensor) -> int:
    """Packs `values [N, K]` and `scales [N]`, and returns the handle of the result."""
    handle = next(_handles)
    if not _has_avx2():
        _packed[handle] = values.contiguous(), scales.float()
        return handle
    zeros = torch.zeros(len(scales), dtype=torch.int64)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.quantize_per_tensor", UserWarning)  # a later PyTorch drops this type
        quantised = _torch._make_per_channel_quantized_tensor(values, scales.double(), zeros, 0)
        _packed[handle] = _ops.quantized.linear_prepack(quantised, None)
    return handle


def forget_with(owner: object, handle: int) -> None:
    """Frees packed weights when their owner is gone."""
    weakref.finalize(owner, _packed.pop, handle, None)


def int8_linear(x: Tensor, weight: Int8Weight, bias: Tensor | None) -> Tensor:
    """Multiplies `x [..., K]` by the weight and adds the bias. With AVX2, few rows are rounded to 8 bits, too."""
    if x.numel() > FEW_ROWS * x.shape[-1]:
        return F.linear(x, weight.dense, bias)
    made: Tensor = _ops.rhapsode.int8_linear(x, weight.handle)
    return made if bias is None else made + bias


@cache
def _has_avx2() -> bool:
    """Returns whether the CPU has AVX2, which products of 8-bit integers need.

    Without AVX2, as on ARM, weights become floats as they are read.
    """
    return torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")


@cache
def _has_vnni() -> bool:
    """Returns whether the CPU has VNNI. Without it, 8-bit products may overflow, so activations get one bit less."""
    return bool(torch.cpu._is_vnni_supported())
