"""What a CosyVoice3 checkpoint can do: it clones and takes speaker embeddings; some have preset speakers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rhapsode.errors import CheckpointError
from rhapsode.models.cosyvoice3.config import read
from rhapsode.models.cosyvoice3.presets import read_presets
from rhapsode.models.summary import summarise
from rhapsode.types import ModelInfo


def describe(info: ModelInfo, folder: Path, config: Mapping[str, Any]) -> ModelInfo:
    """Returns the abilities and voices of one checkpoint."""
    found = read(config, folder)
    if found.rates.sample_rate != info.sample_rate:
        raise CheckpointError(f"'sample_rate' is {found.rates.sample_rate}; {info.family} has {info.sample_rate}.")
    voices = tuple(read_presets(folder, found))
    described = replace(
        info,
        frame_hz=float(found.rates.token_frame_rate),
        can=replace(info.can, presets=bool(voices)),
        voices=voices,
        embedding_size=found.rates.spk_embed_dim,
        default_voice=bool(voices),
    )
    return replace(described, summary=summarise(described))
