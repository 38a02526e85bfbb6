"""Describes what a CosyVoice3 checkpoint can do: cloning needs reference encoders; some have preset speakers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rhapsode.errors import CheckpointError
from rhapsode.extras import how_to_install
from rhapsode.models.cosyvoice3.config import read
from rhapsode.models.cosyvoice3.presets import read_presets
from rhapsode.models.cosyvoice3.spec import ENCODERS
from rhapsode.models.summary import summarise
from rhapsode.types import ModelInfo


def describe(info: ModelInfo, folder: Path, config: Mapping[str, Any]) -> ModelInfo:
    """Returns `info` of the family, narrowed to what the checkpoint in `folder` can do."""
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
    described = _without_encoders(described, folder)
    return replace(described, summary=summarise(described))


def _without_encoders(info: ModelInfo, folder: Path) -> ModelInfo:
    """Returns `info` without cloning if the networks that encode references, or onnxruntime, are missing."""
    lacking = {field: file for field, file in ENCODERS.items() if not (folder / file).is_file()}
    problem = f"Its folder has no {' and no '.join(lacking.values())}: add what is missing"
    if not lacking and find_spec("onnxruntime") is None:
        lacking = ENCODERS
        problem = f"Its encoders of references need onnxruntime: {how_to_install('cosyvoice3')}"
    if not lacking:
        return info
    needs = " and ".join(f"'{field}'" for field in lacking)
    return replace(
        info,
        variant="without reference encoders",
        can=replace(info.can, clone=False),
        reference_needs=tuple(lacking),
        instead={"clone": f"{problem}, or give {needs} beside 'ref_audio' in each request."},
    )
