"""A deployment file, environment variables and flags resolve into one frozen object."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from rhapsode.errors import ConfigError, did_you_mean

ENV_PREFIX = "RHAPSODE_"
DEFAULT_MODEL = "rhapsode-nano"
SECRETS = (("server", "api_keys"),)

Count = Annotated[int, Field(ge=1)]
DEFAULT_SLOTS = 32
Seconds = Annotated[float, Field(ge=0)]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Limits(Section):
    """What bounds the load."""

    max_concurrency: Annotated[Count | None, BeforeValidator(lambda slots: None if slots == "auto" else slots)] = (
        DEFAULT_SLOTS
    )
    """Requests spoken at once: the number of slots; `auto` (None) is as many as memory allows."""
    max_queue: Annotated[int, Field(ge=0)] = 128
    """Requests that may wait for a slot; one more is refused."""
    max_text_chars: Count = 20_000
    max_positions: Count = 4096
    """Prompt and frames of one request together."""

    @property
    def slots(self) -> int:
        """`max_concurrency`, once it is known."""
        assert self.max_concurrency is not None
        return self.max_concurrency


class Memory(Section):
    """Paged KV, and what is kept of references."""

    page_size: Count = 16
    pages: Count | None = None
    """Pages in all; by default enough for every slot to fill up `max_positions`, on a GPU as many of them as fit."""
    prefill_positions: Count = 1024
    """Prompt positions run between two frames, so that prefill never starves running listeners."""
    reference_bytes: Annotated[int, Field(ge=0)] = 256 * 2**20
    """Encoded references kept: a voice that is used again is not encoded again."""


class ChunkConfig(Section):
    """How audio is cut into chunks."""

    first: Count = 1
    growth: Annotated[int, Field(ge=2)] = 2
    largest: Count = 16
    ring: Count = 64
    """Frames a talker may be ahead of its codec."""
    batch: Count = 64
    """Rows decoded at once."""
    patience_s: Seconds = 0.05
    """How long a listener near silence waits for the rest of a chunk."""
    comfort_s: Seconds = 1.0
    """With more than this in hand a listener waits until a batch fills."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.first > self.largest:
            raise ValueError("the first chunk is larger than the largest")
        return self


class Placement(Section):
    """Where and how one stage runs; what is not set is as the family says."""

    device: str | None = None
    workers: Count | None = None
    batch: Count | None = None


class FetchConfig(Section):
    """Reference audio that a request names by its URL."""

    enabled: bool = True
    max_bytes: Count = 25 * 2**20
    connect_s: Seconds = 5.0
    total_s: Seconds = 30.0
    allow_hosts: tuple[str, ...] = ()
    """Exact names or `*.suffix`; when empty, every public host is allowed."""
    allow_private: bool = False
    """Also reach private and loopback addresses."""


class SocketConfig(Section):
    """WebSockets."""

    most: Count = 256
    """Connections at once; one more is refused."""
    config_s: Annotated[float, Field(gt=0)] = 10.0
    """How long a client may take for its first message."""
    idle_s: Annotated[float, Field(gt=0)] = 60.0
    """How long a client may be silent while nothing is spoken for it."""


class ServerConfig(Section):
    """How the engine is reached over HTTP."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """0 takes any free one, and says which."""
    api_keys: tuple[SecretStr, ...] = ()
    """When there are any, every request to `/v1` must bring one of them."""
    cors_origins: tuple[str, ...] = ()
    """Web pages from these origins may call; `*` is everybody."""
    allowed_hosts: tuple[str, ...] = ()
    """Names a server without keys answers under, beside loopback ones and addresses: exact, `*.suffix`, or `*`."""
    voices: Path = Path("~/.local/share/rhapsode/voices")
    """Where uploaded voices are kept; replicas may share it."""
    max_voices: Count = 1000
    max_body_bytes: Count = 40 * 2**20
    """Of requests that may carry audio: uploads, and speech where the model clones voices."""
    max_json_bytes: Count = 4 * 2**20
    """Of speech requests that cannot carry audio."""
    max_upload_bytes: Count = 25 * 2**20
    max_reference_s: Annotated[float, Field(gt=0)] = 60.0
    max_decode_cpu_s: Annotated[float, Field(gt=0)] = 5.0
    max_batch: Count = 32
    max_whole_bytes: Count = 128 * 2**20
    """Of audio that is sent in one piece without compression; longer speech must be streamed."""
    max_request_s: Annotated[float, Field(gt=0)] = 300.0
    """From submission to the last sample; a client that reads may take as much longer as the speech lasts."""
    unspeakable: Literal["refuse", "silence"] = "refuse"
    """What becomes of text without a letter or digit, such as emoji."""
    receive_timeout_s: Annotated[float, Field(gt=0)] = 20.0
    """How long a client may take to send a request, plus a second for every 8 KiB of it."""
    max_connections: Count | None = None
    """Connections at once; by default as many as file descriptors allow, with a reserve."""
    drain_timeout_s: Seconds = 30.0
    """How long running streams may go on once the server has been told to stop."""
    idle_unload_s: Seconds | None = None
    """The model is unloaded after this long without a request, and loaded again for the next one."""
    reference_cache_bytes: Annotated[int, Field(ge=0)] = 256 * 2**20
    log_format: Literal["text", "json"] = "text"
    debug: bool = False
    """Report callbacks that keep the event loop busy for more than 20 ms of CPU time."""
    fetch: FetchConfig = FetchConfig()
    socket: SocketConfig = SocketConfig()

    @field_validator("cors_origins", "allowed_hosts", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        """A variable holds several of them with commas between."""
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @field_validator("api_keys", mode="before")
    @classmethod
    def _whole_keys(cls, value: Any) -> Any:
        """Refuses a key that is empty or looks cut off: it would guard less than its owner believes."""
        keys = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
        texts = [key for key in keys if isinstance(key, str)] if isinstance(keys, list | tuple) else []
        if not all(key and key.isascii() and key.isprintable() and key == key.strip(" '\"[]") for key in texts):
            raise ValueError("an API key is empty, begins or ends with a quote or bracket, or is no ASCII text")
        return keys


class Deployment(Section):
    """Which model runs where, and within what limits."""

    model: str = DEFAULT_MODEL
    """A family's name, a checkpoint's folder, or a checkpoint that is part of this package."""
    device: str = "auto"
    dtype: str = "auto"
    weights: Literal["auto", "fp8"] = "auto"
    """How the layers of a talker are stored: as `dtype` says, or in 8 bits with a scale per output. Then few listeners
    are served faster, since a frame reads half as many bytes; other frames come out, and more memory is taken."""
    threads: Count | None = None
    """CPU threads of one operation; by default talker and codec share the cores. Small models are fastest with 1."""
    graphs: bool = True
    """Record launches and replay them: as CUDA graphs on a GPU, as traces on a CPU."""
    deterministic: bool = False
    """The same seed gives the same bits, alone or in a crowd: every launch has the shape of a full one."""
    limits: Limits = Limits()
    memory: Memory = Memory()
    chunks: ChunkConfig = ChunkConfig()
    stages: dict[str, Placement] = {}
    options: dict[str, Any] = {}
    """Settings of a family that needs no checkpoint."""
    server: ServerConfig = ServerConfig()

    def fixed(self, slots: int, pages: int | None) -> Self:
        """The same, with these numbers where none were set."""
        limits = self.limits.model_copy(update={"max_concurrency": self.limits.max_concurrency or slots})
        memory = self.memory.model_copy(update={"pages": self.memory.pages or pages})
        return self.model_copy(update={"limits": limits, "memory": memory})


def resolve(
    file: Path | None = None,
    env: Mapping[str, str] = os.environ,
    flags: Mapping[str, Any] | None = None,
) -> Deployment:
    """Defaults, then the file, then `RHAPSODE_*` variables (`__` nests), then flags; the later one wins."""
    merged: dict[str, Any] = {}
    for layer in (_from_file(file) if file else {}, _from_env(env), dict(flags or {})):
        _merge(merged, layer)
    try:
        return Deployment.model_validate(merged)
    except ValidationError as error:
        raise ConfigError(_explain(error)) from None


def _from_file(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"cannot read the configuration file {file}: {reason}.") from None
    content = parse_yaml(text, str(file))
    if not isinstance(content, dict | None):
        raise ConfigError(f"{file} must hold keys and values at its top level.")
    return content or {}


def _from_env(env: Mapping[str, str]) -> dict[str, Any]:
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
    """What a piece of YAML says; whatever its parser chokes on is one clear error."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark else ""
        raise ConfigError(f"{where} is not valid YAML{line}.") from None
    except (ValueError, AttributeError, RecursionError):  # impossible dates, endless digits, bottomless nesting
        raise ConfigError(f"{where} is not valid YAML.") from None


def _merge(into: dict[str, Any], layer: Mapping[str, Any]) -> None:
    for key, value in layer.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = dict(value) if isinstance(value, Mapping) else value


def _explain(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        *parents, name = first["loc"]
        return f"unknown key '{where}': {did_you_mean(str(name), _keys_at(parents))}"
    is_section = first["type"] in ("model_type", "dict_type")
    problem = "input should be keys and values" if is_section else first["msg"].lower()
    if "api_keys" in first["loc"]:
        return f"'{where}': {problem}."  # a key is never shown, not even a wrong one
    got = reprlib.repr(first["input"])
    return f"'{where}': {problem}, got {got if len(got) < 100 else type(first['input']).__name__}."


def _keys_at(parents: list[int | str]) -> list[str]:
    section: type[BaseModel] = Deployment
    for name in parents:
        field = section.model_fields.get(str(name))
        if field is None:  # a stage's name under `stages`
            continue
        section = Placement if name == "stages" else field.annotation  # type: ignore[assignment]
    return list(section.model_fields)
