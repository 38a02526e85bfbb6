"""Tensors from a folder into a module, each straight to its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import torch
from torch import Tensor, nn

from rhapsode.checkpoints.weights import Tensors, Weights
from rhapsode.errors import CheckpointError

# A fused linear of a module (it says the `sizes` of its parts), and the checkpoint's parts, one below the other.
FUSED = {"qkv": ("q_proj", "k_proj", "v_proj"), "gate_up": ("gate_proj", "up_proj")}


@dataclass(frozen=True)
class Part:
    """A tensor of the checkpoint, and which rows of its target it fills."""

    name: str
    start: int
    stop: int
    shape: tuple[int, ...]
    stacked: bool = False


def load(
    module: nn.Module,
    source: Path | Tensors,
    *,
    prefix: str = "",
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    ignore: Sequence[str] = (),
) -> None:
    """Fill a module built on the meta device from the tensors of a folder whose names begin with `prefix`.

    Floating-point tensors become `dtype`; buffers that are not in the checkpoint keep their values. `ignore` names
    tensors of the checkpoint (shell patterns, after the prefix) that nobody here uses.
    """
    weights = Weights(source) if isinstance(source, Path) else source
    wanted = dict(targets(module))
    plan = {}
    for name, tensor in wanted.items():
        sizes = getattr(module.get_submodule(name.rpartition(".")[0]), "sizes", ())
        plan[name] = _parts(f"{prefix}{name}", tuple(tensor.shape), sizes, weights)
    _check(plan, weights, prefix, ignore)
    placed: dict[int, Tensor] = {}
    for name, tensor in wanted.items():
        if id(tensor) not in placed:  # tied parameters are read once
            placed[id(tensor)] = _read(tensor, plan[name], weights, torch.device(device), dtype)
        put(module, name, placed[id(tensor)])
    move_rest(module, torch.device(device))


def put(module: nn.Module, name: str, value: Tensor) -> None:
    """Set a parameter or buffer by its dotted name."""
    path, _, leaf = name.rpartition(".")
    owner = module.get_submodule(path)
    if leaf in owner._parameters:
        owner._parameters[leaf] = nn.Parameter(value, requires_grad=False)
    else:
        owner._buffers[leaf] = value


def move_rest(module: nn.Module, device: torch.device) -> None:
    """Bring the buffers no checkpoint holds to the device, as they are."""
    for name, buffer in list(module.named_buffers(remove_duplicate=False)):
        if buffer.is_meta:
            raise ValueError(f"buffer '{name}' has no values: make it with an explicit device, or in `derive`")
        put(module, name, buffer.to(device))


def targets(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """What a checkpoint must hold: parameters and persistent buffers."""
    for path, owner in module.named_modules():
        dot = f"{path}." if path else ""
        for leaf, tensor in (*owner._parameters.items(), *owner._buffers.items()):
            if tensor is not None and leaf not in owner._non_persistent_buffers_set:
                yield f"{dot}{leaf}", tensor


def _parts(name: str, shape: tuple[int, ...], sizes: Sequence[int], weights: Tensors) -> list[Part]:
    """Where a target's values come from: a tensor of its name, the parts of a fused one, or a list to be stacked."""
    path, _, leaf = name.rpartition(".")
    owner, _, last = path.rpartition(".")
    if last in FUSED and sizes:
        names = [f"{owner}.{part}.{leaf}" if owner else f"{part}.{leaf}" for part in FUSED[last]]
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        rows = zip(names, starts, sizes, strict=True)
        return [Part(part, start, start + size, (size, *shape[1:])) for part, start, size in rows]
    if name not in weights and f"{path}.0.{leaf}" in weights:
        return [Part(f"{path}.{i}.{leaf}", i, i + 1, shape[1:], stacked=True) for i in range(shape[0])]
    return [Part(name, 0, shape[0] if shape else 1, shape)]


def _check(plan: Mapping[str, Sequence[Part]], weights: Tensors, prefix: str, ignore: Sequence[str]) -> None:
    """One error for everything that does not fit, naming the first of it."""
    problems: list[str] = []
    used: set[str] = set()
    for part in (part for parts in plan.values() for part in parts):
        used.add(part.name)
        if part.name not in weights:
            problems.append(f"{weights.folder} lacks the tensor '{part.name}' {list(part.shape)}")
        elif (found := weights.shape(part.name)) != part.shape:
            shapes = f"is {list(found)}, the config asks for {list(part.shape)}"
            problems.append(f"{weights.file_of(part.name)}: '{part.name}' {shapes}")
    for name in weights:
        rest = name.removeprefix(prefix)
        if name.startswith(prefix) and name not in used and not any(fnmatchcase(rest, p) for p in ignore):
            problems.append(f"{weights.file_of(name)}: nothing here uses the tensor '{name}'")
    if problems:
        more = f" (and {len(problems) - 1} more like this)" if len(problems) > 1 else ""
        raise CheckpointError(f"{problems[0]}{more}.")


def _read(target: Tensor, parts: Sequence[Part], weights: Tensors, device: torch.device, dtype: torch.dtype) -> Tensor:
    kind = dtype if target.is_floating_point() else target.dtype
    placed = torch.empty(target.shape, dtype=kind, device=device)
    for part in parts:
        rows = placed if not placed.ndim else placed[part.start : part.stop]
        rows.copy_(weights.read(part.name)[None] if part.stacked else weights.read(part.name))
    return placed
