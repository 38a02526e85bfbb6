"""Tensors that modules compute from their weights once, after loading."""

from __future__ import annotations

import torch
from torch import nn


class Derived(nn.Module):
    """A module with non-persistent buffers that are computed from its weights."""

    def derive(self) -> None:
        raise NotImplementedError


@torch.no_grad()
def derive(module: nn.Module) -> None:
    """Calls `derive` of all submodules. Call it after loading and after any cast."""
    for submodule in module.modules():
        if isinstance(submodule, Derived):
            submodule.derive()
