"""Resolves a deployment file, environment variables and flags into one frozen object."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, get_args, get_origin

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from rhapsode.config.alignment import AlignmentConfig
from rhapsode.config.lines import Keys, lines_of
from rhapsode.config.marking import MarkingConfig
from rhapsode.config.section import Count, DeviceName, Seconds, Section
from rhapsode.config.server import ServerConfig
from rhapsode.config.yaml_text import load_yaml
from rhapsode.errors import ConfigError, did_you_mean

ENV_PREFIX = "RHAPSODE_"
DEFAULT_MODEL = "rhapsode-nano"
SECRETS = (("server", "api_keys"),)

DEFAULT_SLOTS = 32
MOST_PROBLEMS = 20
"""How many problems of a configuration are told at once."""

Configured = TypeVar("Configured", bound=BaseModel)


class Limits(Section):
    """Limits of the load."""

    max_concurrency: Annotated[Count | None, BeforeValidator(lambda slots: None if slots == "auto" else slots)] = (
        DEFAULT_SLOTS
    )
    """Requests spoken at once, which is the number of slots; `auto` (None) is as many as memory allows."""
    max_queue: Annotated[int, Field(ge=0)] = 128
    """Requests that may wait for their turn; further ones are refused with 429."""
    real_time: bool = True
    """Admits a request only while all listeners can be served faster than real time, by the measured pace. Without it
    every slot is used: for work where throughput counts, and nobody listens."""
    max_text_chars: Count = 20_000
    max_segments: Count = 200
    """Of one dialogue; their texts together have at most `max_text_chars`."""
    max_positions: Count = 4096
    """Positions of one request: its prompt and its frames together."""
    max_unread_s: Annotated[float, Field(gt=0)] = 60.0
    """Seconds of audio that may wait for a listener who does not read: past that its request pauses."""
    unread_timeout_s: Annotated[float, Field(gt=0)] = 120.0
    """A request that paused because nobody reads fails after so long."""

    @property
    def slots(self) -> int:
        """`max_concurrency`, which is known once the model is loaded."""
        assert self.max_concurrency is not None
        return self.max_concurrency


class Memory(Section):
    """Memory of KV pages and of encoded references."""

    page_size: Count = 16
    pages: Count | None = None
    """Number of pages. By default enough for `max_positions` in every slot; on a GPU at most what memory allows."""
    prefill_positions: Count = 1024
    """Prompt positions in one prefill launch, so that prefill does not delay running requests."""
    share: Annotated[float, Field(gt=0, le=1)] | None = None
    """The part of a GPU's memory that this model may take, with its weights; by default all that is free. In a server
    of several models by default equal parts for those that are there at once: the pinned ones and one more."""
    reference_bytes: Annotated[int, Field(ge=0)] = 256 * 2**20
    """Bytes of the cache of encoded references: a voice that is used again is not encoded again."""


class ChunkConfig(Section):
    """How audio is cut into chunks."""

    first: Count = 1
    growth: Annotated[int, Field(ge=2)] = 2
    largest: Count = 16
    ring: Count = 64
    """Frames that a talker may be ahead of its codec."""
    batch: Count = 64
    """The most requests in one launch of the codec."""
    patience_s: Seconds = 0.05
    """How long a chunk may wait for its last frames, although playback is about to stall."""
    comfort_s: Seconds = 1.0
    """A listener with more audio than this buffered waits until a batch is full."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.first > self.largest:
            raise ValueError("the first chunk is larger than the largest")
        return self


class Placement(Section):
    """Where and how one stage runs; what is not set is as the family declares it."""

    device: DeviceName | None = None
    workers: Count | None = None
    batch: Count | None = None


class Deployment(Section):
    """Which model runs where, and within what limits."""

    model: str = DEFAULT_MODEL
    """A family's name, a checkpoint's folder or hub id, or a checkpoint that is part of this package."""
    device: DeviceName = "auto"
    dtype: str = "auto"
    weights: Literal["auto", "fp8", "int8"] = "auto"
    """Number format of the talker's layers: `dtype`, or 8 bits with a scale per output (`fp8` on a GPU, `int8` on a
    CPU). With 8 bits a frame reads fewer bytes, which is faster for few listeners; results differ, and more memory is
    used."""
    threads: Count | None = None
    """CPU threads of one operation. By default OMP_NUM_THREADS, or talker and codec share the cores. Small models are
    fastest with 1."""
    graphs: bool = True
    """Captures launches and replays them: as CUDA graphs on a GPU, as traces on a CPU."""
    compile_processes: Annotated[int, Field(ge=0)] | None = None
    """Processes that compile kernels before the first start on a GPU; 0: they are compiled while the model loads. By
    default there are two fewer than cores, at most 16."""
    deterministic: bool = False
    """The same seed gives the same bits in every batch: all launches have the shape of a full batch."""
    limits: Limits = Limits()
    memory: Memory = Memory()
    chunks: ChunkConfig = ChunkConfig()
    stages: dict[str, Placement] = Field(default_factory=dict)
    lexicon: Path | None = None
    """A YAML file of words and their respellings, for every request."""
    alignment: AlignmentConfig = AlignmentConfig()
    options: dict[str, Any] = Field(default_factory=dict)
    """Settings of the family, as its `ModelSpec.settings` declares them."""
    companions: dict[str, str] = Field(default_factory=dict)
    """Second repositories a checkpoint needs, by name: folders, or ids on the Hugging Face hub."""
    random_weights: bool = False
    """Weights are random instead of read, for measurements; what is spoken is noise."""
    marking: MarkingConfig = MarkingConfig()
    server: ServerConfig = ServerConfig()

    def fixed(self, slots: int, pages: int | None) -> Self:
        """Returns this deployment, with these numbers where none were set."""
        limits = self.limits.model_copy(update={"max_concurrency": self.limits.max_concurrency or slots})
        memory = self.memory.model_copy(update={"pages": self.memory.pages or pages})
        return self.model_copy(update={"limits": limits, "memory": memory})


def resolve(
    file: Path | None = None,
    env: Mapping[str, str] = os.environ,
    flags: Mapping[str, Any] | None = None,
) -> Deployment:
    """Returns the defaults, overridden by the file, then by `RHAPSODE_*` variables (`__` nests), then by flags."""
    return validated(Deployment, layered(file, env, flags), file)


def layered(
    file: Path | None = None,
    env: Mapping[str, str] = os.environ,
    flags: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Returns all keys that are set somewhere: in the file, in `RHAPSODE_*` variables, by flags."""
    merged: dict[str, Any] = {}
    for layer in (read_file(file) if file else {}, from_env(env), dict(flags or {})):
        merge(merged, layer)
    return merged


def validated(section: type[Configured], content: Mapping[str, Any], file: Path | None = None) -> Configured:
    """Returns the content as a section, or raises `ConfigError` with all problems, each with its line in `file`."""
    try:
        return section.model_validate(content)
    except ValidationError as error:
        lines = lines_of(file.read_text("utf-8")) if file else {}
        found = sorted(error.errors(), key=lambda one: lines.get(tuple(one["loc"]), 0))
        problems = [f"{_where(file, one, lines)}{_explain(one, section)}" for one in found[:MOST_PROBLEMS]]
        raise ConfigError("\n".join(problems)) from None


def read_file(file: Path) -> dict[str, Any]:
    """Returns the keys and values of a YAML file."""
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"cannot read the configuration file {file}: {reason}.") from None
    content = parse_yaml(text, str(file))
    if not isinstance(content, dict | None):
        raise ConfigError(f"{file} must hold keys and values at its top level.")
    return content or {}


def from_env(env: Mapping[str, str]) -> dict[str, Any]:
    """Returns the keys that `RHAPSODE_*` variables set."""
    layer: dict[str, Any] = {}
    for name, text in sorted(env.items()):
        if name.startswith(ENV_PREFIX):
            *parents, leaf = name.removeprefix(ENV_PREFIX).lower().split("__")
            target = layer
            for parent in parents:
                target = target.setdefault(parent, {})
                if not isinstance(target, dict):
                    raise ConfigError(f"{name} contradicts another variable: '{parent}' has a value of its own.")
            # A secret is taken literally: YAML would cut it at ' #', and read some keys as numbers.
            target[leaf] = text if (*parents, leaf) in SECRETS else parse_yaml(text, name)
    return layer


def parse_yaml(text: str, where: str) -> Any:
    """Returns the content of a piece of YAML; raises `ConfigError` for whatever the parser cannot read."""
    try:
        return load_yaml(text)
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        line = f" at line {mark.line + 1}" if mark else ""
        raise ConfigError(f"{where} is not valid YAML{line}{f': {problem[:200]}' if problem else ''}.") from None


def merge(into: dict[str, Any], layer: Mapping[str, Any]) -> None:
    """Writes the settings of `layer` over those of `into`. Nested settings are merged key by key, not replaced."""
    for key, value in layer.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = dict(value) if isinstance(value, Mapping) else value


def _where(file: Path | None, problem: ErrorDetails, lines: Mapping[Keys, int]) -> str:
    """Returns the file and the line of a problem; nothing for a key that the file does not have."""
    keys = tuple(problem["loc"])
    return f"{file}:{lines[keys]}: " if file and keys in lines else ""


def _explain(first: ErrorDetails, section: type[BaseModel]) -> str:
    where = " ".join(".".join(str(part) for part in first["loc"]).split())  # an error is one line
    if first["type"] == "extra_forbidden":
        *parents, name = first["loc"]
        return f"unknown key '{where}': {did_you_mean(str(name), _keys_at(section, parents))}"
    if first["type"] == "value_error":
        return f"'{where}': {first['ctx']['error']}." if where else f"{first['ctx']['error']}."  # our own words
    is_section = first["type"] in ("model_type", "dict_type")
    problem = "input should be keys and values" if is_section else first["msg"].lower()
    if "api_keys" in first["loc"]:
        return f"'{where}': {problem}."  # a key is never shown, not even a wrong one
    got = reprlib.repr(first["input"])
    return f"'{where}': {problem}, got {got if len(got) < 100 else type(first['input']).__name__}."


def _keys_at(section: type[BaseModel], parents: list[int | str]) -> list[str]:
    for name in parents:
        field = section.model_fields.get(str(name))
        if field is None:  # a name that the user chose: of a stage under `stages`, of a model under `models`
            continue
        kind = field.annotation
        section = get_args(kind)[1] if get_origin(kind) is dict else kind  # type: ignore[assignment]
    return list(section.model_fields)
