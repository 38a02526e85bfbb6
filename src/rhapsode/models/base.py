"""All that a family imports to declare itself: its spec, which is data, and the protocols of its workers.

Imports no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from rhapsode.models.spec import Companion as Companion
from rhapsode.models.spec import Layout as Layout
from rhapsode.models.spec import ModelSpec as ModelSpec
from rhapsode.models.spec import NoOptions as NoOptions
from rhapsode.models.spec import StageContext as StageContext
from rhapsode.models.spec import StageSpec as StageSpec
from rhapsode.types import Clip, Samples, Sampling

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    from rhapsode.device.kv import KVLayout
    from rhapsode.device.slots import Rows
    from rhapsode.device.state import State


# --- what a family makes of a request ---------------------------------------------------------------


class TextFeed(Protocol):
    """Tokenises text that arrives while a request is spoken, and limits how many frames may be made from it."""

    def push(self, text: str) -> Sequence[int]:
        """Takes more text; returns the tokens that later text cannot change, for `TakesText.extend`."""

    def close(self) -> Sequence[int]:
        """Ends the text; returns the remaining tokens."""

    def steps(self) -> int | None:
        """Returns how many frames the text so far is enough for; `None` once it is closed."""


class TextSink(Protocol):
    """Takes text that arrives while a generator speaks; the generator reads it from the same object."""

    def push(self, text: str) -> None: ...
    def close(self) -> None: ...


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


@dataclass
class GeneratorPrompt:
    """What a family with a generator stage makes of a request. Families add what their generator needs."""

    feed: TextSink | None = None
    """Set where more text will be appended."""


# --- the parts that work ----------------------------------------------------------------------------


class Step(NamedTuple):
    """What one step made, one entry per row."""

    frames: Tensor  # [B, *frame_shape]
    emitted: Tensor  # [B] bool: the frame is to be heard
    stopped: Tensor  # [B] bool: this was the last step


class Talker(Protocol):
    """The autoregressive model. All it keeps between calls is in slots.

    `prefill` and `step` report a row they cannot serve by raising a `RhapsodeError` before they
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

    def prefill(self, prompts: Sequence[Any], spans: Sequence[tuple[int, int]], rows: Rows, state: State) -> None:
        """Run positions `[start, stop)` of each prompt. `stop == length` comes exactly once, last, and must
        leave the slot ready for its first step."""

    def step(self, rows: Rows, state: State) -> Step:
        """One frame for these rows, in place: what is recorded. On a CPU that asks for more: all that changes is
        in `rows` and `state`, and what looks at values is marked with `nn.trace.decides`."""


@runtime_checkable
class TakesText(Protocol):
    """A talker that takes text while it speaks; its stage has `takes_text` set."""

    def extend(self, tokens: Sequence[int], final: bool, rows: Rows, state: State) -> None:
        """Appends text to the one running request of `rows`. Raises as `Talker` does."""


@runtime_checkable
class CapturesPrefill(Protocol):
    """A talker that captures the launches of `prefill` on a GPU."""

    def capture(self, rows: Rows, most_positions: int) -> None:
        """Captures, before the first request. The one slot of `rows` is scratch; the slot table and the memory are
        those that every later call gets."""


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


@runtime_checkable
class Embedder(Protocol):
    """A worker that computes speaker embeddings; its stage has `embeds` set."""

    def embed(self, clip: Clip) -> tuple[float, ...]:
        """Returns the speaker embedding of a recording. May be called from any thread."""
