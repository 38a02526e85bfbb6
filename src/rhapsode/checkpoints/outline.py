"""Names and shapes of tensors without values: for measurements with random weights, where shapes tell the sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, NoReturn

from rhapsode.errors import CheckpointError

_NUMBERS = re.compile(r"\{(\d{1,4})-(\d{1,4})\}")


class TensorOutline:
    """Tensors that have a name and a shape. `{0-5}` in a name stands for each of these numbers."""

    def __init__(self, file: Path, listed: Mapping[str, Any]) -> None:
        self.folder = file.parent
        self._file = file
        self._shapes: dict[str, tuple[int, ...]] = {}
        for pattern, shape in listed.items():
            if not isinstance(shape, list) or not all(isinstance(size, int) for size in shape):
                raise CheckpointError(f"'{pattern}' of {file} must have a shape, a list of numbers, not {shape!r}.")
            self._shapes |= dict.fromkeys(_names(pattern), tuple(shape))

    def __contains__(self, name: str) -> bool:
        return name in self._shapes

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def file_of(self, name: str) -> Path:
        return self._file

    def shape(self, name: str) -> tuple[int, ...]:
        return self._shapes[name]

    def read(self, name: str) -> NoReturn:
        raise CheckpointError(
            f"{self._file} has only the shape of '{name}': it is for measurements with random weights."
        )


def _names(pattern: str) -> Iterator[str]:
    """Yields the names that a pattern stands for."""
    parts = _NUMBERS.split(pattern)  # text, first, last, text, first, last ...
    ranges = [range(int(first), int(last) + 1) for first, last in zip(parts[1::3], parts[2::3], strict=True)]
    for numbers in product(*ranges):
        yield "".join(f"{text}{number}" for text, number in zip(parts[::3], numbers, strict=False)) + parts[-1]
