"""Preset voices: ready input embeddings of the backbone, one file per voice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from rhapsode.checkpoints.files import read_tensor
from rhapsode.errors import CheckpointError
from rhapsode.models.base import StageContext
from rhapsode.models.parts import checkpoint_of
from rhapsode.models.voxtral_tts.config import VoxtralConfig
from rhapsode.voices.cache import content_key

FOLDER = "voice_embedding"


@dataclass(frozen=True)
class Preset:
    """Where a voice's rows are in the table of all voices, and a hash of their content."""

    first: int
    count: int
    fingerprint: int


class Voices:
    """All presets of a checkpoint as one table, `[rows, dim]`; voices follow each other by index."""

    def __init__(self, rows: Mapping[str, Tensor], dim: int) -> None:
        self.table = torch.cat([torch.zeros(0, dim), *(one.float() for one in rows.values())])
        self.presets = dict(_presets(rows))


def _presets(rows: Mapping[str, Tensor]) -> Iterator[tuple[str, Preset]]:
    first = 0
    for name, tensor in rows.items():
        key = content_key(tensor.float().numpy().tobytes())
        yield name, Preset(first, len(tensor), int.from_bytes(key[:8], "little", signed=True))
        first += len(tensor)


def read_voices(context: StageContext, config: VoxtralConfig, tokens: Mapping[str, int]) -> Voices:
    """Reads the presets that params.json names; with random weights, makes as many random rows as `tokens` says."""
    folder, dim = checkpoint_of(context) / FOLDER, config.backbone.dim
    if context.random_weights:
        generator = torch.Generator().manual_seed(0)
        counts = {name: tokens.get(name, 1) for name in config.codec.voices}
        return Voices({name: torch.randn(count, dim, generator=generator) for name, count in counts.items()}, dim)
    return Voices({name: _read(folder, name, dim) for name in config.codec.voices}, dim)


def _read(folder: Path, name: str, dim: int) -> Tensor:
    path = folder / f"{name}.pt"
    if path.parent != folder or not path.is_file():
        raise CheckpointError(f"{folder.parent} lacks the voice '{name}' that params.json names: {FOLDER}/{name}.pt.")
    rows = read_tensor(path)
    if rows.ndim != 2 or rows.shape[1] != dim or not rows.is_floating_point():
        raise CheckpointError(f"{path} must hold rows of {dim} numbers, not {rows.dtype} {list(rows.shape)}.")
    return rows
