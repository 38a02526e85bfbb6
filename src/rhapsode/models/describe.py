"""Says what a checkpoint can do, without loading it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rhapsode.checkpoints.blame import blaming
from rhapsode.models.lazy import import_name
from rhapsode.models.packaged import packaged_name
from rhapsode.models.settings import parse_settings
from rhapsode.models.spec import ModelSpec
from rhapsode.types import ModelInfo


def describe(
    spec: ModelSpec, checkpoint: Path | None, config: Mapping[str, Any], options: Mapping[str, Any] | None = None
) -> ModelInfo:
    """Returns what a checkpoint can do; without one, or where the family does not tell, what its spec says.

    `options` are those of a deployment.
    """
    info = spec.info()
    if spec.describe is None or (checkpoint is None and spec.published):
        return info
    settings = (parse_settings(spec, options or {}),) if spec.settings_decide else ()
    with blaming(checkpoint):
        described: ModelInfo = import_name(spec.describe)(info, checkpoint, config, *settings)
    return replace(described, options=spec.options_of(described.can), name=packaged_name(checkpoint))
