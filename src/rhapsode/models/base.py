"""A family as data: its spec, its stages, and what their factories are given. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rhapsode.types import Capabilities
from rhapsode.voices.cache import ReferenceCache


@dataclass(frozen=True)
class StageSpec:
    """One stage of a pipeline: its name, its kind, who makes its worker, and where its results go."""

    name: str
    kind: str
    """`call`, `frame`, `stream` or `generator`."""
    factory: str
    """`package.module:callable`, resolved when the engine starts; called with a `StageContext`."""
    next: tuple[str, ...] = ()
    """Stages that get this one's payload."""
    stream_to: tuple[str, ...] = ()
    """Stages that get this one's frames as they come."""
    accepts_early_stream: bool = False
    """Frames may be worked on before the payload is there."""
    takes_text: bool = False
    """Text appended to a running request is handed to this stage."""
    workers: int = 1
    batch: int = 1
    """The most requests one call of a `call` stage takes; above 1 the worker gets and returns lists."""


@dataclass(frozen=True)
class NoOptions:
    """A family that declares no options of its own."""


@dataclass(frozen=True)
class ModelSpec:
    """A family, described without importing anything heavy."""

    name: str
    summary: str
    pipeline: tuple[StageSpec, ...]
    sample_rate: int
    channels: int = 1
    frame_hz: float | None = None
    architectures: tuple[str, ...] = ()
    can: Capabilities = field(default_factory=Capabilities)
    voices: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    options: type = NoOptions
    requires: tuple[str, ...] = ()
    """Modules that must be importable, beyond the project's own dependencies."""
    files: tuple[str, ...] = ()
    """What a checkpoint on the hub holds beside json, txt and safetensors, as shell patterns."""
    extra: str | None = None
    """The extra of this package that installs them."""
    hidden: bool = False
    """For tests and demonstrations: works by name, is not offered."""


@dataclass(frozen=True)
class StageContext:
    """What a stage's factory is told."""

    spec: ModelSpec
    checkpoint: Path | None
    config: Mapping[str, Any]
    """The checkpoint's own `config.json`, or the options of a family that needs no checkpoint."""
    device: str
    dtype: str
    references: ReferenceCache = field(default_factory=lambda: ReferenceCache(0))
    """What stages made of references, shared by all of them."""
    weights: str = "auto"
    """`fp8`: decoder layers are to be quantised, as `models.parts.fill` does."""
