"""Merges a low-rank adapter (LoRA) into the weights of a checkpoint while they are read."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from rhapsode.checkpoints.files import first_of, read_file
from rhapsode.checkpoints.folder import read_json
from rhapsode.checkpoints.weights import ChangedTensors, Tensors
from rhapsode.errors import CheckpointError

WEIGHTS, SETTINGS = ("lora_weights.safetensors", "lora_weights.ckpt"), "lora_config.json"
USUAL_ALPHA = 16.0
DOWN, UP = "lora_A", "lora_B"


class WithLora(ChangedTensors):
    """The tensors of a checkpoint with an adapter added: `weight + alpha / rank * lora_B @ lora_A`."""

    def __init__(self, tensors: Tensors, path: Path, alpha: float | None = None) -> None:
        file = path if path.is_file() else first_of(path, *WEIGHTS)
        super().__init__(tensors)
        self._adapter = read_file(file)
        self._alpha = _alpha(file.parent / SETTINGS) if alpha is None else alpha
        self._check(file)

    def read(self, name: str) -> Tensor:
        weight = self._tensors.read(name)
        owner = name.removesuffix("weight")
        if f"{owner}{DOWN}" not in self._adapter:
            return weight
        down, up = self._adapter[f"{owner}{DOWN}"].float(), self._adapter[f"{owner}{UP}"].float()
        return weight.float() + self._alpha / down.shape[0] * (up @ down)

    def _check(self, file: Path) -> None:
        """Raises if a tensor of the adapter does not fit: then it was trained for another model."""
        for name, factor in self._adapter.items():
            owner, _, leaf = name.rpartition(".")
            weight = f"{owner}.weight"
            if leaf not in (DOWN, UP) or weight not in self._tensors:
                raise CheckpointError(f"{file}: '{name}' belongs to no weight of this checkpoint.")
            axis = 1 if leaf == DOWN else 0
            if f"{owner}.{UP if leaf == DOWN else DOWN}" not in self._adapter:
                raise CheckpointError(f"{file} has only half of the adapter of '{weight}'.")
            if factor.ndim != 2 or factor.shape[axis] != self._tensors.shape(weight)[axis]:
                shapes = f"{list(factor.shape)}, and '{weight}' is {list(self._tensors.shape(weight))}"
                raise CheckpointError(f"{file}: '{name}' is {shapes}.")


def _alpha(settings: Path) -> float:
    """Returns the alpha from the adapter's settings, or upstream's default if they do not exist."""
    if not settings.is_file():
        return USUAL_ALPHA
    content = read_json(settings)
    inner = content.get("lora_config", content)
    value = inner.get("alpha", USUAL_ALPHA) if isinstance(inner, dict) else None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise CheckpointError(f"'alpha' of {settings} must be a number.")
    return float(value)
