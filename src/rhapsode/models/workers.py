"""The interfaces of the workers that a family gives its stages. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from rhapsode.models.prompt import Span
from rhapsode.types import Clip, Samples, Sampling, SpeechRequest

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from rhapsode.device.kv import KVLayout
    from rhapsode.device.ragged import LaunchSizes
    from rhapsode.device.reach import Reach, Window
    from rhapsode.device.slots import Rows
    from rhapsode.device.state import State

# All that a worker keeps between calls is in slots. Its methods report a row they cannot serve by raising a
# `RhapsodeError` before they change any slot: the engine then retries row by row. Any other exception fails every row
# of the call.


class Step(NamedTuple):
    """What one step made, one entry per row."""

    frames: Tensor  # [B, *frame_shape]
    emitted: Tensor  # [B] bool: the frame is to be heard
    stopped: Tensor  # [B] bool: this was the last step


@runtime_checkable
class PrefillsPrompt(Protocol):
    """A worker with paged keys and values, which a prompt is run into before the first step."""

    def kv(self) -> tuple[KVLayout, ...]:
        """One layout per stack of layers that shares the slot's page table."""

    def prefill(self, prompts: Sequence[Any], spans: Sequence[Span], rows: Rows, state: State) -> None:
        """Runs one span of each prompt. A prompt may take several calls; the last one ends at its `length`, and must
        leave the slot ready for its first step."""


class Talker(PrefillsPrompt, Protocol):
    """The autoregressive model: emits one frame per step."""

    frame_shape: tuple[int, ...]
    frame_dtype: torch.dtype
    defaults: Sampling
    """Every field set: what holds where the user set nothing."""

    def state(self, slots: int) -> State:
        """Slot-indexed buffers beyond keys and values, allocated once."""

    def step(self, rows: Rows, state: State) -> Step:
        """Computes one frame for these rows, in place: this is what is captured. On a CPU it is traced: all that
        changes is in `rows` and `state`, and what looks at values is marked with `device.trace.decides`."""


@runtime_checkable
class BeginsInPrefill(Protocol):
    """A talker that can make the pass of a request's first step with its prompt: its first frame comes sooner."""

    begins: bool
    """Whether it does so, where the padding of the launch has room; it then sets `Prompt.is_begun`. The engine sets
    this before anything is captured."""

    def first_step(self, rows: Rows, state: State) -> Step:
        """What `step` does after its pass, for rows whose prompts are begun. Every row emits a frame, and none stops:
        the engine hands the frames on before it has seen them."""


@runtime_checkable
class TakesText(Protocol):
    """A talker whose text may be appended to while it speaks."""

    def extend(self, tokens: Sequence[int], final: bool, rows: Rows, state: State) -> None:
        """Adds the tokens of more text to what the one request in `rows` is speaking; `final`: no more will come."""


@runtime_checkable
class CapturesPrefill(Protocol):
    """A worker whose prefill launches can be captured, too."""

    def capture(self, rows: Rows, most_positions: int) -> None:
        """Called before the first request, on a GPU. The one slot of `rows` is scratch; the table and the memory are
        those that every later call is given."""


@runtime_checkable
class CapturesReady(Protocol):
    """A worker that captures how it makes slots ready for their first step (`device.row_writes`)."""

    def capture_ready(self, rows: Rows, state: State) -> None:
        """Called before the first request, on a GPU. The one slot of `rows` is scratch; the state is that of all later
        calls."""


class StreamWorker(Protocol):
    """Works on the frames of a stream, exactly: what comes out does not depend on how they are cut into windows."""

    reach: Reach

    def state(self, slots: int) -> State: ...

    def decode(self, window: Window, rows: Rows, state: State) -> Tensor:
        """Works on the window's frames that are due; the state moves on by those of them that are present."""


@runtime_checkable
class OpensStream(Protocol):
    """A stream worker that needs the payload of a request before it can decode the request's first frames."""

    def open(self, payloads: Sequence[Any], rows: Rows, state: State, sizes: LaunchSizes | None) -> None:
        """Prepares the slots of several requests, each before its first window. `sizes`: the launch sizes that kernels
        are compiled for (`device.ragged`); None: any size may be launched."""


@runtime_checkable
class LimitsRows(Protocol):
    """A stream worker whose launches are large: they have fewer rows than the deployment allows."""

    most_rows: int


@runtime_checkable
class TakesAllCores(Protocol):
    """A stream worker that may use several CPU cores for one row: talkers leave them to a request's first chunk."""

    takes_all_cores: bool


@runtime_checkable
class PagesPerBlock(Protocol):
    """A converter that `PrefillsPrompt`, with pages that are taken block by block, not for a request's whole life.

    A page holds the positions of one block. Prompts are whole pages, and no frame changes what is in them.
    """

    page_size: int
    """Positions of a block: its granularity times its rate."""
    most_positions: int
    """Positions that one request may have."""


class Codec(StreamWorker, Protocol):
    """Frames to waveform: `decode` returns `[B, channels, due * hop]`."""

    hop: int
    channels: int


class Converter(StreamWorker, Protocol):
    """Frames to other frames: `decode` returns `[B, due * rate, *frame_shape]`.

    It may have paged keys and values of its own (`PrefillsPrompt`): then `rate` positions of them belong to a frame.
    """

    rate: int
    frame_shape: tuple[int, ...]
    frame_dtype: torch.dtype


class Generator(Protocol):
    """An opaque model that yields audio itself."""

    def speak(self, prompt: Any, seed: int) -> Iterator[Samples | None]:
        """Yields chunks of audio as soon as they are made, and `None` while it waits for more text."""


@runtime_checkable
class Embedder(Protocol):
    """A worker that computes speaker embeddings; its stage has `embeds` set."""

    def embed(self, clip: Clip) -> tuple[float, ...]:
        """Returns the speaker embedding of a recording. May be called from any thread."""


@runtime_checkable
class KnowsQuick(Protocol):
    """A worker of a call stage that has payloads with little to do, such as voices without a recording."""

    def is_quick(self, payload: Any) -> bool:
        """Whether the call takes well under a millisecond: then it is made in the sender's thread, beside others."""


@runtime_checkable
class LooksAhead(Protocol):
    """A quick worker of a call stage that has work which is cheaper for many payloads at once, such as tokenising."""

    def look_ahead(self, payloads: Sequence[Any]) -> None:
        """Called with the payloads of requests that came together, before each of them is worked on by itself.

        What is wrong with one of them is raised when it is its turn, not here.
        """


SHORT_CHARS = 512
"""Longer texts are read in a thread of their own: it takes longer than other clients should wait."""


def is_short(payload: Any) -> bool:
    """An `is_quick` for workers that tokenise: whether the payload is a request with a short text and no recording."""
    if not isinstance(payload, SpeechRequest):
        return False
    voice, texts = payload.voice, (payload.text, payload.instructions, payload.voice.description)
    return not (voice.references or voice.continued) and sum(len(text or "") for text in texts) <= SHORT_CHARS
