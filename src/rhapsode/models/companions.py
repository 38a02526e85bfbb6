"""Finds the second repositories that a checkpoint needs: in it, beside it, where the deployment says, or on the hub."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rhapsode.checkpoints import hub
from rhapsode.checkpoints.folder import as_folder, read_json
from rhapsode.errors import CheckpointError, ConfigError, did_you_mean
from rhapsode.models.spec import Companion, ModelSpec


def find_companions(
    spec: ModelSpec, checkpoint: Path | None, given: Mapping[str, str], config: Mapping[str, Any] | None = None
) -> dict[str, Path]:
    """Returns the folder of every companion of a family.

    `given` is what the deployment names, by companion; `config` is the checkpoint's own configuration.
    """
    known = [companion.name for companion in spec.companions]
    for name in given:
        if name not in known:
            raise ConfigError(f"{spec.name} has no companion '{name}': {did_you_mean(name, known)}")
    return {
        one.name: _find(spec, one, checkpoint, given.get(one.name), _named(one, checkpoint, config or {}))
        for one in spec.companions
    }


def _named(companion: Companion, checkpoint: Path | None, config: Mapping[str, Any]) -> str | None:
    """Returns the name that the checkpoint gives this companion, if it gives one."""
    file, _, path = (companion.named_by or "").rpartition(":")
    found: Any = config
    if file:
        other = checkpoint / file if checkpoint is not None else None
        found = read_json(other) if other is not None and other.is_file() else {}
    for key in path.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, str) else None


def _folders(companion: Companion, checkpoint: Path, named: str | None) -> Iterator[Path]:
    """Yields the folders where a companion may be.

    Only the last part of `named` is used: a path in a checkpoint is one on the machine of its author.
    """
    yield checkpoint / companion.name
    last = (named or "").partition("@")[0].rpartition("/")[2]
    if last not in ("", ".", ".."):
        yield checkpoint / last
        yield checkpoint.absolute().parent / last
    yield checkpoint.absolute().parent / companion.name


def _find(spec: ModelSpec, companion: Companion, checkpoint: Path | None, given: str | None, named: str | None) -> Path:
    if given is None and checkpoint is not None:
        for near in _folders(companion, checkpoint, named):
            if near.is_dir():
                return near
    wanted = given or (named if named is not None and hub.is_id(named) else companion.default)
    if wanted is None:
        where = f" in {checkpoint / companion.name}, or" if checkpoint else ""
        raise CheckpointError(
            f"{spec.name} needs its {companion.name}: put it{where} where 'companions.{companion.name}' of the"
            " deployment says (a folder, or owner/name on the Hugging Face hub)."
        )
    if folder := as_folder(wanted):
        return folder
    if hub.is_id(wanted):
        return hub.fetch(wanted, hub.FILES + companion.files, tell=True)
    raise ConfigError(f"companions.{companion.name} is '{wanted}', which is no folder and no owner/name on a hub.")
