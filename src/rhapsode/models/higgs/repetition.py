"""Reads a v2 checkpoint's settings of repetition-aware sampling. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rhapsode.checkpoints.folder import parse, read_json
from rhapsode.errors import CheckpointError
from rhapsode.models.higgs.prompt import RepetitionWindow
from rhapsode.models.higgs.spec import MOST_WINDOW

FILE = "generation_config.json"


@dataclass(frozen=True)
class _GenerationConfig:
    ras_win_len: int | None = 7
    ras_win_max_num_repeat: int = 2


def usual_window(folder: Path) -> RepetitionWindow:
    """Returns the window of a checkpoint, for requests that set none. A window of null switches it off."""
    found = read_json(folder / FILE) if (folder / FILE).is_file() else {}
    config = parse(_GenerationConfig, found, FILE)
    if config.ras_win_len is None:
        return RepetitionWindow(1, 0)
    if not 1 <= config.ras_win_len <= MOST_WINDOW:
        raise CheckpointError(f"'ras_win_len' of {FILE} must be between 1 and {MOST_WINDOW}.")
    return RepetitionWindow(config.ras_win_len, config.ras_win_max_num_repeat)
