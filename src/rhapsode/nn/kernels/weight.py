"""The records of weights and norms that fused linear kernels take."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from rhapsode.nn.kernels.int8 import Int8Weight

FLOAT8 = torch.float8_e4m3fn


class Norm(NamedTuple):
    """The norm of a linear layer's input: a layer norm if it has a bias, else an RMS norm."""

    weight: Tensor
    eps: float
    bias: Tensor | None = None


class Float8Weight(NamedTuple):
    """A weight `[N, K]` as 8-bit floats, with a scale per output."""

    values: Tensor  # [N, K]
    scales: Tensor  # [N], float32

    def dequantised(self, dtype: torch.dtype) -> Tensor:
        """Returns the weight that these numbers represent, in `dtype`."""
        wide = torch.promote_types(dtype, torch.float32)
        return (self.values.to(wide) * self.scales[:, None]).to(dtype)


GpuWeight = Tensor | Float8Weight
Weight = GpuWeight | Int8Weight
