"""Finds the second repositories that a checkpoint needs: beside it, where the deployment says, or on the hub."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rhapsode.checkpoints import hub
from rhapsode.checkpoints.folder import as_folder
from rhapsode.errors import CheckpointError, ConfigError, did_you_mean
from rhapsode.models.spec import Companion, ModelSpec


def find_companions(spec: ModelSpec, checkpoint: Path | None, given: Mapping[str, str]) -> dict[str, Path]:
    """Returns the folder of every companion of a family; `given` is what the deployment names, by companion."""
    known = [companion.name for companion in spec.companions]
    for name in given:
        if name not in known:
            raise ConfigError(f"{spec.name} has no companion '{name}': {did_you_mean(name, known)}")
    return {one.name: _find(spec, one, checkpoint, given.get(one.name)) for one in spec.companions}


def _find(spec: ModelSpec, companion: Companion, checkpoint: Path | None, given: str | None) -> Path:
    inside = checkpoint / companion.name if checkpoint else None
    if given is None and inside is not None and inside.is_dir():
        return inside
    wanted = given or companion.default
    if wanted is None:
        where = f" in {inside}, or" if inside else ""
        raise CheckpointError(
            f"{spec.name} needs its {companion.name}: put it{where} where 'companions.{companion.name}' of the"
            " deployment says (a folder, or owner/name on the Hugging Face hub)."
        )
    if folder := as_folder(wanted):
        return folder
    if hub.is_id(wanted):
        return hub.fetch(wanted, hub.FILES + companion.files)
    raise ConfigError(f"companions.{companion.name} is '{wanted}', which is no folder and no owner/name on a hub.")
