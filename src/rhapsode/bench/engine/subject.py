"""What is measured: a family, a checkpoint, or random weights in the shape a config describes."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rhapsode.bench.engine import byte_tokenizer, stand_ins
from rhapsode.config import DEFAULT_MODEL
from rhapsode.errors import ConfigError, did_you_mean
from rhapsode.models.base import ModelSpec
from rhapsode.models.registry import Model, find

SHAPES = Path(__file__).parent.parent / "shapes"


@dataclass(frozen=True)
class Subject:
    """A model to be run, and what a report says of it."""

    name: str
    model: Model
    weights: str
    """`random`, `checkpoint` or `own` (a family that needs none)."""
    bytes_for_words: bool = False
    """Its tokenizer makes one token per byte, about four times as many as a real one."""
    stand_ins: tuple[str, ...] = ()

    @property
    def spec(self) -> ModelSpec:
        return self.model.spec

    @property
    def frames(self) -> bool:
        """Whether it speaks in frames that can be counted and timed."""
        return any(stage.kind == "frame" for stage in self.spec.pipeline)


@contextmanager
def subject(model: str | None, random_weights: str | None) -> Iterator[Subject]:
    """The subject of a run; its temporary files live as long as the context."""
    if random_weights is None:
        name = model or DEFAULT_MODEL
        found = find(name)
        yield Subject(name, found, "own" if found.checkpoint is None else "checkpoint")
        return
    absent = stand_ins.install()
    with tempfile.TemporaryDirectory(prefix="rhapsode-shape-") as temporary:
        folder = Path(temporary)
        has_words = write_shape(random_weights, folder)
        bytes_for_words = not has_words or "tokenizers" in absent
        name = Path(random_weights).name
        yield Subject(name, find(str(folder)), "random", bytes_for_words, tuple(absent))


def write_shape(name: str, folder: Path) -> bool:
    """The files of a shape, as a checkpoint without weights; False: its tokenizer had to be made up."""
    source, config = _shape(name)
    for path in source.rglob("*"):
        if path.is_file() and path.suffix in (".json", ".txt"):
            (folder / path.relative_to(source)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, folder / path.relative_to(source))
    shutil.copyfile(config, folder / "config.json")
    has_words = (folder / "tokenizer.json").is_file() or (folder / "vocab.json").is_file()
    if not has_words:
        byte_tokenizer.write(folder)
    return has_words


def _shape(name: str) -> tuple[Path, Path]:
    """The folder a shape is in, and its config.json: a shape that ships, a folder, or a file."""
    shipped = SHAPES / name
    if "/" not in name and shipped.is_dir():
        return shipped, shipped / "config.json"
    path = Path(name).expanduser()
    if path.is_file():
        return path.parent, path
    if (path / "config.json").is_file():
        return path, path / "config.json"
    known = sorted(folder.name for folder in SHAPES.iterdir() if folder.is_dir())
    raise ConfigError(f"there is no config.json at '{name}', and no shape of that name: {did_you_mean(name, known)}")
