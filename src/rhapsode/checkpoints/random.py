"""Fills a model with random weights on its device, to measure speed without a checkpoint."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from rhapsode.checkpoints.load import move_buffers, set_tensor, stored_tensors

HEAD_STD = 3.0  # of logits: enough for sampling to give varied results


def randomize(
    module: nn.Module,
    seed: int = 0,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> None:
    """Fills a module that was built on the meta device with values that keep activations finite and outputs varied."""
    device = torch.device(device)
    generator = torch.Generator(device).manual_seed(seed)
    placed: dict[int, Tensor] = {}
    for name, tensor in list(stored_tensors(module)):
        if id(tensor) not in placed:
            kind = dtype if tensor.is_floating_point() else tensor.dtype
            value = torch.empty(tensor.shape, dtype=kind, device=device)
            placed[id(tensor)] = _fill(name, value, generator)
        set_tensor(module, name, placed[id(tensor)])
    move_buffers(module, device)


def _fill(name: str, value: Tensor, generator: torch.Generator) -> Tensor:
    if not value.is_floating_point():
        return value.zero_()
    path, _, leaf = name.rpartition(".")
    if leaf in ("cluster_usage", "initialized", "running_var") or (
        value.ndim < 2 and "norm" in path and leaf == "weight"
    ):
        return value.fill_(1.0)
    if leaf == "alpha" and value.ndim > 1:  # the frequency of a Snake activation: near 0 its inverse would be huge
        return value.fill_(1.0)
    if leaf in ("scale", "gamma"):
        return value.fill_(0.1)
    if value.ndim < 2:
        return value.normal_(0.0, 0.02, generator=generator)
    fan_in = value.shape[-1] if "head" in name or value.ndim == 2 else math.prod(value.shape[1:])
    gain = HEAD_STD if "head" in name else 1.0
    std = 0.5 if "embed" in name else gain / math.sqrt(fan_in)
    return value.normal_(0.0, std, generator=generator)
