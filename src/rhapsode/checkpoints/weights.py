"""Reads the tensors of a folder: one at a time from safetensors files, or all at once from a pickle of tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from rhapsode.checkpoints.files import read_file
from rhapsode.checkpoints.folder import read_json
from rhapsode.errors import CheckpointError

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLED = "pytorch_model.bin"


class Tensors(Protocol):
    """Tensors by name, from any kind of file."""

    folder: Path

    def __contains__(self, name: str) -> bool: ...

    def __iter__(self) -> Iterator[str]: ...

    def file_of(self, name: str) -> Path: ...

    def shape(self, name: str) -> tuple[int, ...]: ...

    def read(self, name: str) -> Tensor: ...


class TensorsInMemory:
    """Tensors of one file, held in memory: for a format that is read whole, or for tensors that were changed."""

    def __init__(self, file: Path, tensors: Mapping[str, Tensor]) -> None:
        self.folder = file.parent
        self._file = file
        self._tensors = tensors

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def file_of(self, name: str) -> Path:
        return self._file

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._tensors[name].shape)

    def read(self, name: str) -> Tensor:
        return self._tensors[name]


class ChangedTensors:
    """The tensors of another source, some of them changed while they are read."""

    def __init__(self, tensors: Tensors) -> None:
        self.folder = tensors.folder
        self._tensors = tensors

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def file_of(self, name: str) -> Path:
        return self._tensors.file_of(name)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._tensors.shape(name)

    def read(self, name: str) -> Tensor:
        return self._tensors.read(name)


def open_weights(folder: Path) -> Tensors:
    """Returns the tensors of a folder: of its safetensors files, or of `pytorch_model.bin` where there are none."""
    safe = any((folder / name).is_file() for name in (SINGLE, INDEX))
    if safe or not (folder / PICKLED).is_file():
        return Weights(folder)
    return TensorsInMemory(folder / PICKLED, read_file(folder / PICKLED))


def open_file(file: Path) -> Tensors:
    """Returns the tensors of one file: a safetensors file is read as far as it is asked for, a pickle at once."""
    if not file.is_file():
        raise CheckpointError(f"{file.parent} holds no {file.name}.")
    if file.suffix == ".safetensors":
        return Weights(file.parent, only=file.name)
    return TensorsInMemory(file, read_file(file))


class Weights:
    """The tensors of a folder's safetensors files.

    With `every`, all such files in the folder are read, whatever their names are, as Mistral's checkpoints need it;
    with `only`, the file of this name.
    """

    def __init__(self, folder: Path, *, every: bool = False, only: str | None = None) -> None:
        self.folder = folder
        self._open: dict[str, Any] = {}
        if only is not None:
            self._file_of = self._single(only)
        elif every:
            self._file_of = self._every()
        else:
            self._file_of = self._single() if (folder / SINGLE).is_file() else self._sharded()

    def __contains__(self, name: str) -> bool:
        return name in self._file_of

    def __iter__(self) -> Iterator[str]:
        return iter(self._file_of)

    def file_of(self, name: str) -> Path:
        return self.folder / self._file_of[name]

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._handle(self._file_of[name]).get_slice(name).get_shape())

    def read(self, name: str) -> Tensor:
        """Returns a tensor over the memory-mapped file: it takes memory only while it is used."""
        tensor: Tensor = self._handle(self._file_of[name]).get_tensor(name)
        return tensor

    def _single(self, file: str = SINGLE) -> dict[str, str]:
        return dict.fromkeys(self._handle(file).keys(), file)

    def _every(self) -> dict[str, str]:
        files = sorted(path.name for path in self.folder.glob("*.safetensors"))
        if not files:
            raise CheckpointError(f"{self.folder} holds no .safetensors file: its weights are missing.")
        file_of: dict[str, str] = {}
        for file in files:
            for name in self._handle(file).keys():  # noqa: SIM118 (a safetensors file is no mapping)
                if name in file_of:
                    raise CheckpointError(f"the tensor '{name}' is in {file_of[name]} and in {file} of {self.folder}.")
                file_of[name] = file
        return file_of

    def _sharded(self) -> dict[str, str]:
        if not (self.folder / INDEX).is_file():
            raise CheckpointError(f"{self.folder} holds neither {SINGLE} nor {INDEX}: its weights are missing.")
        file_of = read_json(self.folder / INDEX).get("weight_map")
        if not isinstance(file_of, dict):
            raise CheckpointError(f"{self.folder / INDEX} has no 'weight_map'.")
        for name, file in file_of.items():
            if not _is_file_name(file):
                shown = repr(file[:100]) if isinstance(file, str) else f"a {type(file).__name__}"
                raise CheckpointError(
                    f"{self.folder / INDEX} says that the tensor '{name[:100]}' is in {shown}: it must be the name of "
                    "a file in the same folder."
                )
        for file in sorted(set(file_of.values())):
            present = set(self._handle(file).keys())
            for name in (name for name, where in file_of.items() if where == file and name not in present):
                raise CheckpointError(f"{self.folder / file} lacks the tensor '{name}' that {INDEX} promises.")
        return file_of

    def _handle(self, file: str) -> Any:
        if file not in self._open:
            from safetensors import SafetensorError, safe_open

            try:
                self._open[file] = safe_open(self.folder / file, framework="pt", device="cpu").__enter__()
            except FileNotFoundError:
                raise CheckpointError(f"{self.folder} lacks {file}, which its index names.") from None
            except (SafetensorError, OSError) as error:
                raise CheckpointError(f"{self.folder / file} is not a readable safetensors file: {error}") from None
        return self._open[file]


def _is_file_name(value: object) -> bool:
    """Whether a value is the name of a file, and no path."""
    return isinstance(value, str) and value not in ("", "..") and value.isprintable() and Path(value).name == value
