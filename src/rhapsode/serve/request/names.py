"""OpenAI's names of voices and models, and what each means here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rhapsode.config import Deployment
from rhapsode.errors import UnknownModel
from rhapsode.types import ModelInfo

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
    """Returns the preset that an OpenAI voice is mapped to: always the same one; a preset of that name is itself."""
    if not presets or name.lower() not in OPENAI_VOICES:
        return None
    by_case = {preset.lower(): preset for preset in presets}
    return by_case.get(name.lower(), presets[OPENAI_VOICES.index(name.lower()) % len(presets)])


def served_id(deployment: Deployment) -> str:
    """Returns the model's id in `/v1/models`; for a folder, its name without the path."""
    path = Path(deployment.model).expanduser()
    return path.resolve().name if path.is_dir() else deployment.model


def check_model(name: str | None, deployment: Deployment, info: ModelInfo) -> None:
    """Raises if a request names a model that is not served here."""
    if name is None or name in (deployment.model, info.family, *OPENAI_MODELS) or name.startswith("gpt-4o-mini-tts-"):
        return
    if name != (here := served_id(deployment)):
        raise UnknownModel(f"the model '{name}' is not served here; '{here}' is.", param="model")
