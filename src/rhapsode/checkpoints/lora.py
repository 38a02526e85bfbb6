"""Low-rank adapters, merged into the weights they were trained on while these are read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from torch import Tensor

from rhapsode.checkpoints.files import first_of, read_file
from rhapsode.checkpoints.folder import read_json
from rhapsode.checkpoints.weights import Tensors
from rhapsode.errors import CheckpointError

WEIGHTS, SETTINGS = ("lora_weights.safetensors", "lora_weights.ckpt"), "lora_config.json"
USUAL_ALPHA = 16.0
INTO, OUT = "lora_A", "lora_B"


class WithLora:
    """Tensors to which an adapter's products are added: `weight + alpha / rank * lora_B @ lora_A`."""

    def __init__(self, tensors: Tensors, path: Path, alpha: float | None = None) -> None:
        file = path if path.is_file() else first_of(path, *WEIGHTS)
        self.folder = tensors.folder
        self._tensors = tensors
        self._parts = read_file(file)
        self._alpha = _alpha(file.parent / SETTINGS) if alpha is None else alpha
        self._check(file)

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def file_of(self, name: str) -> Path:
        return self._tensors.file_of(name)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._tensors.shape(name)

    def read(self, name: str) -> Tensor:
        weight = self._tensors.read(name)
        owner = name.removesuffix("weight")
        if f"{owner}{INTO}" not in self._parts:
            return weight
        into, out = self._parts[f"{owner}{INTO}"].float(), self._parts[f"{owner}{OUT}"].float()
        return weight.float() + self._alpha / into.shape[0] * (out @ into)

    def _check(self, file: Path) -> None:
        """An adapter that fits nothing, or only in part, is for another model."""
        for name, part in self._parts.items():
            owner, _, leaf = name.rpartition(".")
            target = f"{owner}.weight"
            if leaf not in (INTO, OUT) or target not in self._tensors:
                raise CheckpointError(f"{file}: '{name}' belongs to no weight of this checkpoint.")
            axis = 1 if leaf == INTO else 0
            if f"{owner}.{OUT if leaf == INTO else INTO}" not in self._parts:
                raise CheckpointError(f"{file} has only half of the adapter of '{target}'.")
            if part.ndim != 2 or part.shape[axis] != self._tensors.shape(target)[axis]:
                shapes = f"{list(part.shape)}, and '{target}' is {list(self._tensors.shape(target))}"
                raise CheckpointError(f"{file}: '{name}' is {shapes}.")


def _alpha(settings: Path) -> float:
    """As the training wrote it down; upstream's default where it did not."""
    if not settings.is_file():
        return USUAL_ALPHA
    content = read_json(settings)
    inner = content.get("lora_config", content)
    value = inner.get("alpha", USUAL_ALPHA) if isinstance(inner, dict) else None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise CheckpointError(f"'alpha' of {settings} must be a number.")
    return float(value)
