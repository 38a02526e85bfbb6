"""How the engine is reached over HTTP."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, SecretStr, field_validator, model_validator

from rhapsode.config.section import Count, Seconds, Section

DialectName = Literal["openai", "vllm-omni", "sglang-omni", "kokoro-fastapi"]
DIALECTS: tuple[str, ...] = get_args(DialectName)


class FetchConfig(Section):
    """Download of reference audio that a request names by URL."""

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
    """Open connections; further ones are refused."""
    config_s: Annotated[float, Field(gt=0)] = 10.0
    """How long a client may take for its first message."""
    idle_s: Annotated[float, Field(gt=0)] = 60.0
    """How long a client may send nothing while no request of it is running."""


class PhraseCacheConfig(Section):
    """Finished speech that is kept, for phrases that are said often."""

    bytes: Annotated[int, Field(ge=0)] = 0
    """0: nothing is kept. A second at 24 kHz has 96 kB."""
    folder: Path | None = None
    """Where it is kept; without a folder, in memory."""
    unseeded: bool = False
    """Also keep speech of requests without a seed: what was said first is said again."""


class WyomingConfig(Section):
    """A port for the Wyoming protocol, which Home Assistant speaks. It knows no keys."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] | None = None
    """Home Assistant expects 10200. Without a port there is no such listener; 0 takes any free port."""
    announce: bool = False
    """Announce the port on the local network, where Home Assistant finds it; needs the package zeroconf."""
    most: Count = 64
    """Open connections; further ones are closed."""
    idle_s: Annotated[float, Field(gt=0)] = 60.0
    """How long a client may send nothing while no request of it is running."""


class TracesConfig(Section):
    """Traces of requests, for OpenTelemetry; needs the extra `otel`."""

    endpoint: Annotated[str, Field(pattern="^https?://[^/]")] | None = None
    """The collector's address for OTLP over HTTP, such as `http://collector:4318`. Without one nothing is traced."""
    sample: Annotated[float, Field(ge=0, le=1)] = 1.0
    """The share of requests that is traced. A client that sends `traceparent` decides for its own requests."""
    service: str = "rhapsode"
    """The name of this server in traces."""


class AuditConfig(Section):
    """A file with a line about every request: who asked, when, which voice, how it ended."""

    file: Path | None = None
    """Without a file there is no audit log."""
    text: bool = False
    """Also write what was said."""


class ServerConfig(Section):
    """How the engine is reached over HTTP."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """0 takes any free port, and prints which."""
    api_keys: tuple[SecretStr, ...] = ()
    """If there are any, every request to `/v1` must have one of them."""
    key_dialects: dict[str, DialectName] = Field(default_factory=dict)
    """Dialects of single keys, by a hash of each: written beside the keys, as `{key: ..., dialect: ...}`."""
    api_keys_file: Path | None = None
    """A file with the keys, in lines or separated by commas, instead of `api_keys`. It is read at the start. A dialect
    may follow a key, after a blank."""
    dialect: DialectName = "openai"
    """Whose clients are expected: fields, events and errors are those of that server. A key may have another one, and
    so may a path that begins with a dialect's name."""
    public_lists: bool = False
    """`GET /v1/audio/voices` and `/v1/audio/models` need no key; without one they tell names only."""
    cors_origins: tuple[str, ...] = ()
    """Origins of web pages that may call; `*` allows all."""
    allowed_hosts: tuple[str, ...] = ()
    """Names a server without keys answers under, beside loopback ones and addresses: exact, `*.suffix`, or `*`."""
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    """Addresses or networks of proxies whose `X-Forwarded-For` or `Forwarded` says who the client is. Nobody is trusted
    by default, also not loopback: other programs of the machine use it, too."""
    voices: Path = Path("~/.local/share/rhapsode/voices")
    """The folder of uploaded voices; replicas may share it."""
    max_voices: Count = 1000
    voice_aliases: dict[str, str] = Field(default_factory=dict)
    """Further names of voices: each stands for a preset or an uploaded voice."""
    model_aliases: tuple[str, ...] = ()
    """Further names of the served model."""
    unknown_fields: Literal["strict", "refuse", "ignore"] = "refuse"
    """What becomes of fields that are unknown here or have no effect. The header `X-Ignored-Fields` names those that
    were ignored. `refuse` ignores `instructions` alone, which OpenAI's users set; `strict` refuses them, too."""
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
    """Connections at once; by default as many as file descriptors allow, with a reserve. At this number the one that
    has waited longest for a request is closed for a new one."""
    keep_alive_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 75.0
    """How long a connection without a request stays open. The idle time of a proxy in front should be shorter."""
    drain_timeout_s: Seconds = 30.0
    """How long running streams may continue after the server got a signal to stop."""
    idle_unload_s: Seconds | None = None
    """The model is unloaded after this long without a request, and loaded again for the next one."""
    engine_process: bool | None = None
    """The engine runs in a process of its own, so that many clients at once do not slow it down. By default it does
    where there is a GPU."""
    engine_silence_s: Annotated[float, Field(ge=1)] = 5.0
    """An engine's process that sends nothing for this long is killed and started again. It does not count while it
    loads."""
    engine_turn_s: Annotated[float, Field(ge=1)] = 30.0
    """So is one whose device loop needs longer for one launch; on a CPU, where a launch does the work itself, longer
    than `max_request_s`, too."""
    reference_cache_bytes: Annotated[int, Field(ge=0)] = 256 * 2**20
    cache: PhraseCacheConfig = PhraseCacheConfig()
    audit: AuditConfig = AuditConfig()
    """A file's name alone is enough: `audit: audit.jsonl`."""
    traces: TracesConfig = TracesConfig()
    """An address alone is enough: `traces: http://collector:4318`."""
    require_consent: bool = False
    """Refuse reference audio without a `consent`, as uploads without one are."""
    log_format: Literal["text", "json"] = "text"
    debug: bool = False
    """Report callbacks that keep the event loop busy for more than 20 ms of CPU time."""
    fetch: FetchConfig = FetchConfig()
    socket: SocketConfig = SocketConfig()
    wyoming: WyomingConfig = WyomingConfig()
    """A port alone is enough: `wyoming: 10200`."""

    def key_lines(self) -> list[str]:
        """Returns the keys as lines of a file, each with its dialect if it has one."""
        keys = [key.get_secret_value() for key in self.api_keys]
        return [" ".join(filter(None, (key, self.key_dialects.get(key_id(key.encode()))))) for key in keys]

    @model_validator(mode="before")
    @classmethod
    def _keys_of_file(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        if isinstance(file := value.get("api_keys_file"), str | Path):
            if value.get("api_keys"):
                raise ValueError("api_keys and api_keys_file are both given: keep one of them")
            value = {**value, "api_keys": _keys_in(Path(file).expanduser())}
        return _with_key_dialects(value)

    @field_validator("cors_origins", "allowed_hosts", "trusted_proxies", "model_aliases", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        """Splits a text at commas: an environment variable may hold several values."""
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @field_validator("trusted_proxies", mode="before")
    @classmethod
    def _networks(cls, value: Any) -> Any:
        for network in value if isinstance(value, list | tuple) else []:
            try:
                ip_network(network)
            except ValueError:
                raise ValueError(f"'{network}' is no address and no network such as 10.0.0.0/8") from None
        return value

    @field_validator("wyoming", mode="before")
    @classmethod
    def _port_alone(cls, value: Any) -> Any:
        return {"port": value} if isinstance(value, int | str) else value

    @field_validator("audit", mode="before")
    @classmethod
    def _file_alone(cls, value: Any) -> Any:
        return {"file": value} if isinstance(value, str) else value

    @field_validator("traces", mode="before")
    @classmethod
    def _endpoint_alone(cls, value: Any) -> Any:
        return {"endpoint": value} if isinstance(value, str) else value

    @field_validator("api_keys", mode="before")
    @classmethod
    def _whole_keys(cls, value: Any) -> Any:
        """Refuses a key that is empty or looks cut off: it would guard less than its owner believes."""
        keys = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
        texts = [key for key in keys if isinstance(key, str)] if isinstance(keys, list | tuple) else []
        if not all(key and key.isascii() and key.isprintable() and key == key.strip(" '\"[]") for key in texts):
            raise ValueError("an API key is empty, begins or ends with a quote or bracket, or is no ASCII text")
        return keys


def _with_key_dialects(server: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the section with plain keys, and the dialects that were written beside some of them."""
    given = server.get("api_keys")
    keys = given.split(",") if isinstance(given, str) else given
    if not isinstance(keys, list | tuple):
        return server
    pairs = [_key_and_dialect(key) for key in keys]
    dialects = {key_id(key.encode()): name for key, name in pairs if name is not None and isinstance(key, str)}
    if not dialects:
        return server
    dialects = {**server.get("key_dialects", {}), **dialects}
    return {**server, "api_keys": [key for key, _ in pairs], "key_dialects": dialects}


def _key_and_dialect(entry: Any) -> tuple[Any, Any]:
    """Returns a key and its dialect, from an entry such as `{key: ..., dialect: ...}` or "KEY DIALECT"."""
    if isinstance(entry, Mapping) and entry.keys() == {"key", "dialect"}:
        return entry["key"], entry["dialect"]
    if isinstance(entry, str):
        key, _, dialect = entry.strip().rpartition(" ")
        if key and dialect in DIALECTS:
            return key.strip(), dialect
    return entry, None


def key_id(key: bytes) -> str:
    """Returns a short hash that identifies an API key, also in the audit log, without revealing it."""
    return hashlib.sha256(key).hexdigest()[:16]


def _keys_in(file: Path) -> list[str]:
    """Returns the keys of a file; raises `ValueError` if there are none, so that a wrong file opens no server."""
    try:
        lines = file.read_text("ascii").splitlines()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no ASCII text"
        raise ValueError(f"cannot read the API keys in {file}: {reason}") from None
    keys = [key.strip() for line in lines if line.strip() for key in line.split(",")]
    if not keys:
        raise ValueError(f"there is no API key in {file}")
    return keys
