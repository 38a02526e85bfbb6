"""Loads the tensors of a checkpoint into a module, one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import torch
from torch import Tensor, nn

from rhapsode.checkpoints.audit import note_tensors
from rhapsode.checkpoints.weights import Tensors, Weights
from rhapsode.errors import CheckpointError

# By the name of a fused linear layer, the checkpoint's layers that it joins. Its attribute `sizes` has their rows.
FUSED = {"qkv": ("q_proj", "k_proj", "v_proj"), "gate_up": ("gate_proj", "up_proj")}


@dataclass(frozen=True)
class TensorSource:
    """A tensor of the checkpoint, and the rows of the module's tensor that it fills."""

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
    names: Mapping[str, str] | None = None,
) -> None:
    """Fills a module that was built on the meta device with the checkpoint's tensors whose names begin with `prefix`.

    Floating-point tensors are converted to `dtype`. Buffers that are not in the checkpoint keep their values. `ignore`
    has shell patterns, without the prefix, of checkpoint tensors that are not needed. `names` maps parts of the
    module's tensor names to those in the checkpoint; a fused layer with an entry is fused in the checkpoint, too.
    """
    weights = Weights(source) if isinstance(source, Path) else source
    wanted = dict(stored_tensors(module))
    plan = {}
    for name, tensor in wanted.items():
        sizes = getattr(module.get_submodule(name.rpartition(".")[0]), "sizes", ())
        plan[name] = _sources(name, tuple(tensor.shape), sizes, weights, _Naming(prefix, names or {}))
    _check(plan, weights, prefix, ignore)
    placed: dict[int, Tensor] = {}
    for name, tensor in wanted.items():
        if id(tensor) not in placed:  # tied parameters are read once
            placed[id(tensor)] = _read(tensor, plan[name], weights, torch.device(device), dtype)
        set_tensor(module, name, placed[id(tensor)])
    move_buffers(module, torch.device(device))


def set_tensor(module: nn.Module, name: str, value: Tensor) -> None:
    """Sets a parameter or buffer by its dotted name."""
    path, _, leaf = name.rpartition(".")
    owner = module.get_submodule(path)
    if leaf in owner._parameters:
        owner._parameters[leaf] = nn.Parameter(value, requires_grad=False)
    else:
        owner._buffers[leaf] = value


def move_buffers(module: nn.Module, device: torch.device) -> None:
    """Moves all buffers to the device: buffers that no checkpoint has are still on the device that made them."""
    for name, buffer in list(module.named_buffers(remove_duplicate=False)):
        if buffer.is_meta:
            raise ValueError(f"buffer '{name}' has no values: make it with an explicit device, or in `derive`")
        set_tensor(module, name, buffer.to(device))


def stored_tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yields the tensors that a checkpoint must contain: parameters and persistent buffers."""
    for path, owner in module.named_modules():
        dot = f"{path}." if path else ""
        for leaf, tensor in (*owner._parameters.items(), *owner._buffers.items()):
            if tensor is not None and leaf not in owner._non_persistent_buffers_set:
                yield f"{dot}{leaf}", tensor


@dataclass(frozen=True)
class _Naming:
    """Translates a module's tensor names to a checkpoint's."""

    prefix: str
    names: Mapping[str, str]

    def __call__(self, name: str) -> str:
        for ours, theirs in self.names.items():
            name = name.replace(ours, theirs)
        return f"{self.prefix}{name}"

    def fuses(self, layer: str) -> bool:
        """Returns whether the checkpoint has this fused layer as one layer."""
        return any(ours.rpartition(".")[2] == layer for ours in self.names)


def _sources(
    name: str, shape: tuple[int, ...], sizes: Sequence[int], weights: Tensors, naming: _Naming
) -> list[TensorSource]:
    """Returns the checkpoint's tensors that fill one tensor of a module: one of the same name, the parts of a fused
    layer, or a list to stack."""
    path, _, leaf = name.rpartition(".")
    owner, _, last = path.rpartition(".")
    if last in FUSED and sizes and not naming.fuses(last):
        names = [naming(f"{owner}.{part}.{leaf}" if owner else f"{part}.{leaf}") for part in FUSED[last]]
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        rows = zip(names, starts, sizes, strict=True)
        return [TensorSource(part, start, start + size, (size, *shape[1:])) for part, start, size in rows]
    whole = naming(name)
    if whole not in weights and shape and naming(f"{path}.0.{leaf}") in weights:
        listed = [naming(f"{path}.{i}.{leaf}") for i in range(min(shape[0], len(list(weights)) + 1))]
        return [TensorSource(one, i, i + 1, shape[1:], stacked=True) for i, one in enumerate(listed)]
    return [TensorSource(whole, 0, shape[0] if shape else 1, shape)]


def _check(plan: Mapping[str, Sequence[TensorSource]], weights: Tensors, prefix: str, ignore: Sequence[str]) -> None:
    """Raises one error for all tensors that are missing, unused or of another shape; its message names the first."""
    problems: list[str] = []
    used: set[str] = set()
    for source in (source for sources in plan.values() for source in sources):
        used.add(source.name)
        if source.name not in weights:
            problems.append(f"{weights.folder} lacks the tensor '{source.name}' {list(source.shape)}")
        elif (found := weights.shape(source.name)) != source.shape:
            shapes = f"is {list(found)}, the config asks for {list(source.shape)}"
            problems.append(f"{weights.file_of(source.name)}: '{source.name}' {shapes}")
    ours = [name for name in weights if name.startswith(prefix) and name not in used]
    ignored = {name for name in ours if any(fnmatchcase(name.removeprefix(prefix), p) for p in ignore)}
    problems += [
        f"{weights.file_of(name)}: nothing here uses the tensor '{name}'" for name in ours if name not in ignored
    ]
    note_tensors(str(weights.folder), weights, used, ignored)
    if problems:
        more = f" (and {len(problems) - 1} more like this)" if len(problems) > 1 else ""
        raise CheckpointError(f"{problems[0]}{more}.", details=problems)


def _read(
    empty: Tensor, sources: Sequence[TensorSource], weights: Tensors, device: torch.device, dtype: torch.dtype
) -> Tensor:
    kind = dtype if empty.is_floating_point() else empty.dtype
    placed = torch.empty(empty.shape, dtype=kind, device=device)
    for source in sources:
        rows = placed if not placed.ndim else placed[source.start : source.stop]
        rows.copy_(weights.read(source.name)[None] if source.stacked else weights.read(source.name))
    return placed
