"""Describes a VoxCPM2 checkpoint: it can do what the family can, at a frame rate of its own. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rhapsode.models.voxcpm2.config import VaeConfig, read
from rhapsode.types import ModelInfo


def describe(info: ModelInfo, folder: Path, config: Mapping[str, Any]) -> ModelInfo:
    """Returns the abilities of one checkpoint."""
    vae = VaeConfig.from_dict(config.get("audio_vae_config"))
    return replace(info, frame_hz=vae.out_sample_rate / (read(config).patch.patch_size * vae.hop))
