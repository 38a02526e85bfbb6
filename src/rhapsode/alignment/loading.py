"""Finds the acoustic model of a deployment."""

from __future__ import annotations

from pathlib import Path

from rhapsode.alignment.model import Acoustic
from rhapsode.checkpoints.folder import read_config
from rhapsode.config.alignment import AlignmentConfig
from rhapsode.errors import CheckpointError, ConfigError

PACKAGED = AlignmentConfig()
PACKAGED_LANGUAGE = "en"
"""The language of the acoustic model that the package contains."""
PUBLISHED = "wav2vec2"
"""The `model_type` of the published checkpoints that are read."""


def aligned_languages(config: AlignmentConfig) -> tuple[str, ...]:
    """Returns the languages that the acoustic model of a deployment knows, without loading it."""
    if config.model is None:
        if config.language not in (None, PACKAGED_LANGUAGE):
            raise ConfigError(
                f"alignment: the package has no acoustic model for '{config.language}'. Name the folder of a CTC "
                f"checkpoint: `alignment: {{model: FOLDER, language: {config.language}}}`."
            )
        return (PACKAGED_LANGUAGE,)
    return (_language(config, config.model.expanduser()),)


def load_acoustic(config: AlignmentConfig = PACKAGED, device: str = "cpu") -> Acoustic:
    """Loads the acoustic model that a deployment names, or the one that the package contains.

    A published checkpoint runs on `device`; ours is so small that it always runs on the CPU.
    """
    (language,) = aligned_languages(config)
    if config.model is None:
        from rhapsode.alignment.acoustic import AcousticModel  # torch takes long to import

        return AcousticModel.load()
    folder = config.model.expanduser()
    if read_config(folder).get("model_type") != PUBLISHED:
        from rhapsode.alignment.acoustic import AcousticModel

        return AcousticModel.load(folder)
    from rhapsode.alignment.windows import WindowedModel
    from rhapsode.device.place import pick_device

    return WindowedModel.load(folder, language, pick_device(device))


def _language(config: AlignmentConfig, folder: Path) -> str:
    """Returns the language of a folder's model. Our own models state it; for published ones the deployment does."""
    values = read_config(folder)
    kind, said = values.get("model_type"), values.get("language")
    if kind is not None and kind != PUBLISHED:
        raise CheckpointError(f"{folder} is a checkpoint of '{kind}'. Word times need CTC letters: '{PUBLISHED}'.")
    if kind is None and not isinstance(said, str):
        raise CheckpointError(f"'language' is missing from {folder / 'config.json'}.")
    if kind is None and config.language not in (None, said):
        raise ConfigError(f"alignment: the model in {folder} is for '{said}', not for '{config.language}'.")
    language = said if kind is None else config.language
    if not isinstance(language, str):
        raise ConfigError(
            f"alignment: a '{PUBLISHED}' checkpoint does not say its language. Add its code: "
            f"`alignment: {{model: {folder}, language: de}}`."
        )
    return language
