"""Computes the cache key of a phrase: a hash of everything that decides what the model says, and nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any

import numpy as np

from rhapsode import __version__
from rhapsode.config import Deployment
from rhapsode.models.registry import Model
from rhapsode.types import SpeechRequest

AFTER_THE_MODEL = {"speed", "loudness", "volume", "channels", "first_chunk_frames", "real_time", "text_open"}
"""Fields of a request that change how speech is delivered, not what the model says."""
_OF_THE_MODEL = {"model", "device", "dtype", "weights", "deterministic", "options", "companions", "random_weights"}


def model_identity(model: Model, deployment: Deployment) -> str:
    """Returns a hash of the checkpoint and its settings, since another checkpoint speaks the same text differently."""
    files = []
    if model.checkpoint is not None:
        for file in sorted(path for path in model.checkpoint.rglob("*") if path.is_file()):
            about = file.stat()
            files.append((str(file.relative_to(model.checkpoint)), about.st_size, about.st_mtime_ns))
    lexicon = deployment.lexicon.expanduser().read_text("utf-8") if deployment.lexicon else ""
    settings = deployment.model_dump(mode="json", include=_OF_THE_MODEL)
    return _digest([__version__, model.spec.name, files, settings, lexicon])


def phrase_key(request: SpeechRequest, identity: str) -> str:
    """Returns the key of a request. Voices are hashed by content: a voice replaced under its name gives another key."""
    said = {name: value for name, value in vars(request).items() if name not in AFTER_THE_MODEL}
    return _digest([identity, said])


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(_plain(value), sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """Converts a value to what JSON can write; arrays become a hash of their content."""
    if isinstance(value, np.ndarray):
        return [str(value.dtype), list(value.shape), hashlib.sha256(value.tobytes()).hexdigest()]
    if is_dataclass(value) and not isinstance(value, type):
        return {name: _plain(item) for name, item in vars(value).items()}
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
