"""The model to be measured: a family, a checkpoint, or random weights in the shape a config describes."""

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
from rhapsode.models.registry import Model, families, find

SHAPES = Path(__file__).parent.parent / "shapes"


@dataclass(frozen=True)
class MeasuredModel:
    """The model to be measured, and what the report says about it."""

    name: str
    model: Model
    weights: str
    """`random`, `checkpoint` or `own` (a family without a checkpoint)."""
    byte_tokens: bool = False
    """Its tokenizer makes one token per byte: about four times as many as a real one."""
    stand_ins: tuple[str, ...] = ()

    @property
    def spec(self) -> ModelSpec:
        return self.model.spec

    @property
    def frames(self) -> bool:
        """Whether it has a talker whose frames can be counted and timed."""
        return any(stage.kind == "frame" for stage in self.spec.pipeline)


@contextmanager
def subject(model: str | None, random_weights: str | None) -> Iterator[MeasuredModel]:
    """Yields the subject of a run. Its temporary files are deleted when the context ends."""
    if random_weights is None:
        name = model or DEFAULT_MODEL
        found = find(name)
        yield MeasuredModel(name, found, "own" if found.checkpoint is None else "checkpoint")
        return
    absent = stand_ins.install()
    with tempfile.TemporaryDirectory(prefix="rhapsode-shape-") as temporary:
        folder = Path(temporary)
        has_vocabulary = write_shape(random_weights, folder)
        byte_tokens = not has_vocabulary or "tokenizers" in absent
        name = Path(random_weights).name
        yield MeasuredModel(name, find(str(folder)), "random", byte_tokens, tuple(absent))


def write_shape(name: str, folder: Path) -> bool:
    """Writes a shape as a checkpoint without weights. Returns whether it has a vocabulary of its own."""
    source, config = _shape(name)
    for path in source.rglob("*"):
        if path.is_file() and path.suffix in (".json", ".txt", ".yaml"):
            (folder / path.relative_to(source)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, folder / path.relative_to(source))
    if config.name not in _config_names():  # the configuration has a name of its own
        shutil.copyfile(config, folder / "config.json")
    has_vocabulary = byte_tokenizer.has_vocabulary(folder)
    if not has_vocabulary:
        byte_tokenizer.write(folder)
    return has_vocabulary


def _shape(name: str) -> tuple[Path, Path]:
    """Returns the folder and the configuration file of a shape: one of this package, a folder, or a file."""
    shipped, path = SHAPES / name, Path(name).expanduser()
    if path.is_file():
        return path.parent, path
    for folder in (shipped, path) if "/" not in name else (path,):
        for config in (folder / one for one in _config_names()):
            if config.is_file():
                return folder, config
    known = sorted(folder.name for folder in SHAPES.iterdir() if folder.is_dir())
    raise ConfigError(
        f"there is no config.json at '{name}', and no packaged shape of that name: {did_you_mean(name, known)}"
    )


def _config_names() -> tuple[str, ...]:
    """Returns the files by which checkpoints are recognised, config.json first."""
    layouts = (layout.config for spec in families()[0].values() for layout in spec.layouts)
    return tuple(dict.fromkeys(("config.json", *layouts)))
