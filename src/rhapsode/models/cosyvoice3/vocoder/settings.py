"""Reads the sizes of the vocoder from the `hift` section of a checkpoint's YAML file. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rhapsode.checkpoints.folder import parse, section
from rhapsode.errors import CheckpointError
from rhapsode.nn.hift.settings import HiftSettings

WHERE = "the section 'hift'"


def hift_settings(values: Mapping[str, Any]) -> HiftSettings:
    """Reads the section `hift`, whose YAML references are resolved already."""
    transform, f0 = (section(values, name, WHERE) for name in ("istft_params", "f0_predictor"))
    found = parse(HiftSettings, {**values, **transform, "f0_channels": f0.get("cond_channels")}, WHERE)
    stages = len(found.upsample_rates)
    if stages != len(found.upsample_kernel_sizes) or stages != len(found.source_resblock_kernel_sizes):
        raise CheckpointError(f"{WHERE} must have a kernel size and a source block for each of its upsample rates.")
    if found.hop_len * 4 != found.n_fft:
        raise CheckpointError(f"'n_fft' of {WHERE} must be four times 'hop_len'.")
    return found
