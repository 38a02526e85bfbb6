"""A family as data: its stages, its checkpoints, its abilities and its options. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from rhapsode.errors import ConfigError, did_you_mean
from rhapsode.types import Capabilities, ModelInfo, Sampling
from rhapsode.voices.cache import ReferenceCache

WEIGHT_FILES = (".safetensors", ".pt", ".pth")
"""How the names of files with tensors end."""
SOURCES = ("frame", "burst")
"""The kinds of stages that make frames of prompts."""


@dataclass(frozen=True)
class StageSpec:
    """One stage of a pipeline: its name, its kind, the factory of its worker, and where its results go."""

    name: str
    kind: str
    """`call`, `frame`, `burst`, `stream` or `generator`."""
    factory: str
    """`package.module:callable`, imported when the engine starts; called with a `StageContext`."""
    next: tuple[str, ...] = ()
    """Stages that get this one's payload."""
    stream_to: tuple[str, ...] = ()
    """Stages that get this one's frames as they are made."""
    accepts_early_stream: bool = False
    """The stage may work on frames before its payload has arrived."""
    takes_text: bool = False
    """Text appended to a running request goes to this stage; the worker of a frame stage has the trait
    `extend`, unless every piece of text gets a prompt of its own."""
    embeds: bool = False
    """The worker has the trait `embed`."""
    on_device: bool = False
    """A `call` or `generator` stage that runs on the deployment's device, in float32; without it, on the CPU.
    Frame, burst and stream stages always run on the deployment's device."""
    workers: int = 1
    batch: int = 1
    """The most requests in one call of a `call` stage; above 1 the worker takes and returns lists."""


@dataclass(frozen=True)
class Layout:
    """How a checkpoint is recognised: a file that it holds, and values that keys of this file have."""

    config: str = "config.json"
    """JSON or YAML; its content is `StageContext.config`. Or a shell pattern for the names of weight files, where a
    checkpoint has no configuration: it is enough that there is one, and the configuration is empty."""
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Each key has one of these values, or is a list with one of them. Empty: it is enough that the file exists."""
    keys: tuple[str, ...] = ()
    """Keys that the file has, with any value."""
    on_hub: bool = True
    """Checkpoints on the hub may have it: without it, the file is looked for in folders only."""

    @property
    def is_weights(self) -> bool:
        """Whether a checkpoint is recognised by the name of a weight file."""
        return self.config.endswith(WEIGHT_FILES)

    def files_in(self, folder: Path) -> list[Path]:
        """Returns the files of a folder by which this layout recognises it, in the order of their names."""
        found = sorted(folder.glob(self.config)) if self.is_weights else [folder / self.config]
        return [file for file in found if file.is_file()]

    def __str__(self) -> str:
        values = [f"{key}: {' or '.join(values)}" for key, values in self.where.items()]
        wanted = ", ".join([*values, *self.keys])
        return f"{self.config} ({wanted})" if wanted else self.config


@dataclass(frozen=True)
class Companion:
    """A second repository that a checkpoint needs, such as a codec of its own."""

    name: str
    default: str | None = None
    """Its id on the Hugging Face hub."""
    named_by: str | None = None
    """The key of the checkpoint's configuration that names it: `outer.inner` for one inside another, `file.json:key`
    for one in another file. A folder in or beside the checkpoint with the last part of that name, or with `name`, is
    taken, else that id on the hub."""
    files: tuple[str, ...] = ()
    """Files to download besides json, txt and safetensors, as shell patterns."""


@dataclass(frozen=True)
class NoOptions:
    """The options or settings of a family that declares none."""


@dataclass(frozen=True)
class ModelSpec:
    """A family, described without importing anything heavy."""

    name: str
    summary: str
    pipeline: tuple[StageSpec, ...]
    sample_rate: int
    channels: int = 1
    frame_hz: float | None = None
    layouts: tuple[Layout, ...] = ()
    """The checkpoints this family runs; any one of the layouts is enough."""
    published: tuple[str, ...] = ()
    """Checkpoints on the Hugging Face hub. A family that has any needs one."""
    installed: str | None = None
    """`package.module:function` that returns the folder of a checkpoint that is installed on this machine, or `None`.
    The family's name then stands for it."""
    install: str = ""
    """The command that installs such a checkpoint, for error messages."""
    companions: tuple[Companion, ...] = ()
    unread: tuple[str, ...] = ()
    """Files of its checkpoints that match `files` but are not read, as shell patterns: they are not downloaded."""
    can: Capabilities = field(default_factory=Capabilities)
    """What at least one of the family's checkpoints can do."""
    normalise: bool = False
    """The family wants numbers, dates and the like as words, unless a request says otherwise."""
    kinds: Mapping[str, Capabilities] = field(default_factory=dict)
    """What each kind of checkpoint can do, where a family has several; errors name those that could."""
    instead: Mapping[str, str] = field(default_factory=dict)
    """What to do without an ability that the family lacks, by its name; the end of an error message."""
    voices: tuple[str, ...] = ()
    voice_facts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What is known of presets, by their names: `gender`, `accent`. Nothing is guessed."""
    languages: tuple[str, ...] = ()
    describe: str | None = None
    """`package.module:function` that says what one checkpoint can do: `function(info, folder, config)` gets the
    `ModelInfo` of this spec and returns that of the checkpoint. A family that has no checkpoints (nothing in
    `published`) may say what it can do here; its folder is `None`."""
    settings_decide: bool = False
    """What a checkpoint can do depends on the deployment's settings: `describe` gets them as a fourth argument."""
    options: type = NoOptions
    """What a request may set: a frozen dataclass."""
    option_needs: Mapping[str, str] = field(default_factory=dict)
    """The ability that a checkpoint must have for an option to have an effect."""
    sampling: tuple[str, ...] = tuple(Sampling.__dataclass_fields__)
    """The sampling parameters that have an effect."""
    settings: type = NoOptions
    """What a deployment may set under `options`: a frozen dataclass."""
    requires: tuple[str, ...] = ()
    """Modules that must be importable, beyond the project's own dependencies."""
    needs: tuple[str, ...] = ()
    """Files that a checkpoint must hold, as shell patterns; `a|b` is either."""
    tokenizer: str | None = None
    """`package.module:function` that returns the tokenizer of a checkpoint's folder: text to ids."""
    files: tuple[str, ...] = ()
    """Files of a hub checkpoint to download besides its config, json, txt and safetensors, as shell patterns."""
    extra: str | None = None
    """The extra of this package that installs what `requires` names."""
    one_voice: bool = False
    """The voice of a request cannot change: all segments of a dialogue have the same."""
    hidden: bool = False
    """For tests and demonstrations: works by name, and is not listed."""

    @property
    def source(self) -> StageSpec | None:
        """The stage that makes frames of prompts: a talker or a burst. A family with a generator has none."""
        return next((stage for stage in self.pipeline if stage.kind in SOURCES), None)

    def info(self) -> ModelInfo:
        """Returns what the family can do in general; `describe` narrows it down to one checkpoint."""
        return ModelInfo(
            family=self.name,
            summary=self.summary,
            sample_rate=self.sample_rate,
            channels=self.channels,
            frame_hz=self.frame_hz,
            can=self.can,
            voices=self.voices,
            voice_facts=self.voice_facts,
            languages=self.languages,
            normalise=self.normalise,
            sampling=self.sampling,
            options=self.options_of(self.can),
        )

    @property
    def option_names(self) -> tuple[str, ...]:
        return tuple(option.name for option in fields(self.options))

    def options_of(self, can: Capabilities) -> tuple[str, ...]:
        """Returns the options that have an effect on a checkpoint with these abilities."""
        return tuple(name for name in self.option_names if self.option_needs.get(name) in (None, *can.names()))


@dataclass(frozen=True)
class StageContext:
    """What a stage's factory is called with."""

    spec: ModelSpec
    checkpoint: Path | None
    config: Mapping[str, Any]
    """The content of the checkpoint's own configuration file; empty without a checkpoint."""
    device: str
    dtype: str
    references: ReferenceCache = field(default_factory=lambda: ReferenceCache(0))
    """Results of reference encoders, shared by all stages."""
    weights: str = "auto"
    """`fp8` or `int8`: `models.parts.fill` quantises decoder layers to 8 bits."""
    random_weights: bool = False
    """Weights are random instead of read: for measurements without a checkpoint's weights."""
    settings: Any = None
    """What the deployment set under `options`: an instance of `ModelSpec.settings`; by default with its defaults."""
    companions: Mapping[str, Path] = field(default_factory=dict)
    begins: bool = False
    """A talker may run the first step's pass with the prompt (`Traits.first_step`)."""

    def __post_init__(self) -> None:
        if self.settings is None:
            object.__setattr__(self, "settings", self.spec.settings())

    def companion(self, name: str) -> Path:
        """Returns the folder of a companion that the spec declares."""
        if name not in self.companions:
            raise ConfigError(f"{self.spec.name} declares no companion '{name}': {did_you_mean(name, self.companions)}")
        return self.companions[name]
