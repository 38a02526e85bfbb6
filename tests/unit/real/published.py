"""Facts about published checkpoints, and a stand-in for their weights: names and shapes without values."""

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

FACTS = Path(__file__).parents[2] / "golden" / "real"
WEIGHTS = Path("published")


def facts(name: str) -> Any:
    """The content of a JSON file, which may be compressed."""
    data = (FACTS / name).read_bytes()
    return json.loads(gzip.decompress(data) if name.endswith(".gz") else data)


class AnyShape(tuple[int, ...]):
    """The shape of a tensor of which only the name is known: it equals every shape."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = tuple.__hash__


class PublishedTensors:
    """Tensors on the meta device with these shapes, as a source for `checkpoints.load`."""

    folder = WEIGHTS

    def __init__(self, shapes: Mapping[str, list[int] | None]) -> None:
        """A shape of `None` is unknown."""
        self._shapes = shapes

    def __contains__(self, name: str) -> bool:
        return name in self._shapes

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def file_of(self, name: str) -> Path:
        return self.folder / "model.safetensors"

    def shape(self, name: str) -> tuple[int, ...]:
        found = self._shapes[name]
        return AnyShape() if found is None else tuple(found)

    def read(self, name: str) -> Tensor:
        return torch.empty(self._shapes[name] or (), device="meta")
