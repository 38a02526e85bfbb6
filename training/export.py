"""Writes modules under their checkpoint names: the reverse of `rhapsode.checkpoints.load`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from rhapsode.checkpoints.load import FUSED, stored_tensors
from rhapsode.models.qwen3_tts.predictor import Tables

EXACT = ("cluster_usage", "embedding_sum", "embed_sum")
"""Kept in float32."""


def write_tensors(path: Path, modules: Mapping[str, nn.Module], dtype: torch.dtype = torch.float16) -> None:
    """Writes all tensors of these modules, with each module's prefix."""
    tensors = {f"{prefix}{name}": value for prefix, part in modules.items() for name, value in named(part)}
    for name, value in tensors.items():
        kind = torch.float32 if name.endswith(EXACT) else dtype
        tensors[name] = value.detach().to("cpu", kind).contiguous()
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, path, metadata={"format": "pt"})


def named(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yields tensors by name: fused linears split, stacked tables as lists, plus unused ones that upstream expects."""
    for name, tensor in stored_tensors(module):
        path, _, leaf = name.rpartition(".")
        owner = module.get_submodule(path)
        parent, _, last = path.rpartition(".")
        sizes = getattr(owner, "sizes", ())
        if last in FUSED and sizes:
            for part, rows in zip(FUSED[last], tensor.split(sizes), strict=True):
                yield f"{parent}.{part}.{leaf}", rows
        elif isinstance(owner, Tables):
            for i, table in enumerate(tensor):
                yield f"{path}.{i}.{leaf}", table
        else:
            yield name, tensor
