"""The voices of a checkpoint: for each length of a sentence a style, alone or mixed."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rhapsode.checkpoints.files import read_tensor
from rhapsode.errors import CheckpointError
from rhapsode.models.kokoro.config import KokoroConfig
from rhapsode.models.kokoro.folder import CheckpointFiles
from rhapsode.voices.mix import parse_mix


class VoiceStyles:
    """Reads a voice when it is first used, and keeps it."""

    def __init__(self, files: CheckpointFiles, config: KokoroConfig) -> None:
        self._files = {file.stem: file for file in files.voices}
        self._rows, self._width = config.most_phonemes, 2 * config.style_dim
        self._tables: dict[str, Tensor] = {}
        self._lock = threading.Lock()

    def style(self, voice: str, phonemes: int) -> Tensor:
        """Returns the style `[2 * style]` of a voice, or of a mix, for a sentence of so many phonemes."""
        parts = parse_mix(voice)
        total, row = sum(parts.values()), min(max(phonemes, 1), self._rows) - 1
        styles = [self._table(name)[row] * (weight / total) for name, weight in parts.items()]
        return torch.stack(styles).sum(0)

    def _table(self, name: str) -> Tensor:
        with self._lock:
            if name not in self._tables:
                self._tables[name] = self._read(self._files[name])
            return self._tables[name]

    def _read(self, file: Path) -> Tensor:
        if file.suffix == ".bin":
            values = torch.from_numpy(np.fromfile(file, "<f4"))
        else:
            values = read_tensor(file).float().flatten()
        if values.numel() != self._rows * self._width or not values.isfinite().all():
            raise CheckpointError(f"{file} must hold {self._rows} styles of {self._width} finite numbers.")
        return values.view(self._rows, self._width)
