"""Other names for voices and models: OpenAI's names, and the deployment's aliases."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rhapsode.config import Deployment
from rhapsode.config.server import ServerConfig
from rhapsode.errors import ConfigError, UnknownModel
from rhapsode.types import ModelInfo
from rhapsode.voices.name import name_key

OPENAI_VOICES = (
    "alloy",
    "ash",
    "ballad",
    "coral",
    "echo",
    "fable",
    "nova",
    "onyx",
    "sage",
    "shimmer",
    "verse",
    "marin",
    "cedar",
)
OPENAI_MODELS = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")
DEFAULT_VOICE = "default"


def preset_for(name: str, presets: Sequence[str]) -> str | None:
    """Returns the preset that an OpenAI voice stands for, always the same: the preset of that name if there is one.

    Returns None for a name that is not OpenAI's, and for a model without presets.
    """
    if not presets or name.lower() not in OPENAI_VOICES:
        return None
    by_case = {preset.lower(): preset for preset in presets}
    return by_case.get(name.lower(), presets[OPENAI_VOICES.index(name.lower()) % len(presets)])


class VoiceAliases:
    """The deployment's own names for voices."""

    def __init__(self, config: ServerConfig, info: ModelInfo) -> None:
        self.names = dict(config.voice_aliases)
        self._by_key = {name_key(alias): voice for alias, voice in self.names.items()}
        for preset in info.presets:
            if name_key(preset) in self._by_key:
                raise ConfigError(f"server.voice_aliases: '{preset}' is a voice of {info.title}: choose another name.")

    def __contains__(self, name: str) -> bool:
        return name_key(name) in self._by_key

    def resolve(self, name: str) -> str:
        """Returns the voice that an alias stands for; any other name is returned unchanged."""
        return self._by_key.get(name_key(name), name)


def served_id(deployment: Deployment) -> str:
    """Returns the model's id in `/v1/models`; for a folder, its name without the path."""
    path = Path(deployment.model).expanduser()
    return path.resolve().name if path.is_dir() else deployment.model


def check_model(name: str | None, deployment: Deployment, info: ModelInfo) -> None:
    """Raises if a request names a model that is not served here."""
    known = (deployment.model, info.family, *OPENAI_MODELS, *deployment.server.model_aliases)
    if name is None or name in known or name.startswith("gpt-4o-mini-tts-"):
        return
    if name != (here := served_id(deployment)):
        raise UnknownModel(f"the model '{name}' is not served here; '{here}' is.", param="model")
