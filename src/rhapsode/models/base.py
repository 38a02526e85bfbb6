"""What a family shows the engine: a spec that is data, and the faces of its parts. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rhapsode.types import Capabilities, Samples, Sampling
from rhapsode.voices.cache import ReferenceCache

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    from rhapsode.device.kv import KVLayout
    from rhapsode.device.slots import Rows
    from rhapsode.device.state import State


# --- the spec: data ---------------------------------------------------------------------------------


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


# --- what a family makes of a request ---------------------------------------------------------------


class TextFeed(Protocol):
    """Takes text that arrives while a request is spoken, and says how far the talker may go on it."""

    def push(self, text: str) -> Sequence[int]:
        """What of the text so far is now certain, as tokens for `Talker.extend`."""

    def close(self) -> Sequence[int]:
        """The rest: no more text will come."""

    def steps(self) -> int | None:
        """How many frames the text so far is good for; `None` once it is closed."""


@dataclass
class Prompt:
    """What a family makes of a request. Families add what their talker needs."""

    max_frames: int
    """Past this the talker has run away: no text of this length needs more."""
    wanted_frames: int | None = None
    """The most the user asked for in the family's own options: an end there is no runaway."""
    length: int = 0
    """Positions to prefill before the first step."""
    content: NDArray[np.generic] | None = None
    """`[length, ...]`, one row per position with everything that decides it: what prefix sharing compares."""
    feed: TextFeed | None = None
    following: Callable[[], Prompt | None] | None = None
    """Asked once this is said: the next part of a text that is too long for one prompt, or `None` at the end."""


# --- the parts that work ----------------------------------------------------------------------------


class Step(NamedTuple):
    """What one step made, one entry per row."""

    frames: Tensor  # [B, *frame_shape]
    emitted: Tensor  # [B] bool: the frame is to be heard
    stopped: Tensor  # [B] bool: this was the last step


class Talker(Protocol):
    """The autoregressive model. All it keeps between calls is in slots.

    `prefill`, `extend` and `step` report a row they cannot serve by raising a `RhapsodeError` before they
    change any slot: the engine then retries row by row. Any other exception fails every row of the call.
    """

    frame_shape: tuple[int, ...]
    frame_dtype: torch.dtype
    defaults: Sampling
    """Every field set: what holds where the user set nothing."""

    def kv(self) -> tuple[KVLayout, ...]:
        """One layout per stack of layers that shares the slot's page table."""

    def state(self, slots: int) -> State:
        """Slot-indexed buffers beyond KV, allocated once."""

    def capture(self, rows: Rows, most_positions: int) -> None:
        """Before the first request, on a GPU: record the launches of `prefill` where that pays. The one slot of `rows`
        is scratch; the table and the memory are those every later call will be given."""

    def prefill(self, prompts: Sequence[Any], spans: Sequence[tuple[int, int]], rows: Rows, state: State) -> None:
        """Run positions `[start, stop)` of each prompt. `stop == length` comes exactly once, last, and must
        leave the slot ready for its first step."""

    def extend(self, tokens: Sequence[int], final: bool, rows: Rows, state: State) -> None:
        """Append text to the one running request of `rows`."""

    def step(self, rows: Rows, state: State) -> Step:
        """One frame for these rows, in place: what is recorded. On a CPU that asks for more: all that changes is
        in `rows` and `state`, and what looks at values is marked with `nn.trace.decides`."""


class Codec(Protocol):
    """Frames to waveform, exact for every chunking. Raises as `Talker` does."""

    hop: int
    channels: int
    lookahead_frames: int

    def state(self, slots: int) -> State: ...

    def open(self, payload: Any, rows: Rows, state: State) -> None:
        """Prepare the one slot of `rows` with its stage's payload, where the pipeline sends it one."""

    def decode(self, frames: Tensor, ahead: int, rows: Rows, state: State) -> Tensor:
        """`frames [B, n + ahead, ...]` to `[B, channels, n * hop]`; state moves on by `n` frames."""


class Generator(Protocol):
    """An opaque model that yields audio itself."""

    def speak(self, prompt: Any, seed: int) -> Iterator[Samples | None]:
        """Chunks as they are ready; `None` means: nothing to say until more text arrives."""
