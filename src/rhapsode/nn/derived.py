"""Tensors that modules derive from their weights, once these are loaded."""

from __future__ import annotations

import torch
from torch import nn


class Derived(nn.Module):
    """A module that computes with something made from its weights: kept as non-persistent buffers, made once."""

    def derive(self) -> None:
        raise NotImplementedError


@torch.no_grad()
def derive(module: nn.Module) -> None:
    """Make what the parts of this module derive from their weights. Call after loading and after any cast."""
    for part in module.modules():
        if isinstance(part, Derived):
            part.derive()
