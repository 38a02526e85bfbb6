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
    """What one step of a talker made, with an entry for each request of the batch."""

    frames: Tensor  # [B, *frame_shape]
    emitted: Tensor  # [B] bool: the frame is to be heard
    stopped: Tensor  # [B] bool: this was the last step


@runtime_checkable
class PrefillsPrompt(Protocol):
    """A worker with attention over the past: before its first step, a request's prompt is run to fill the KV cache."""

    def kv(self) -> tuple[KVLayout, ...]:
        """Returns the shapes of its KV cache, one for each stack of layers. All use the same pages of a slot."""

    def prefill(self, prompts: Sequence[Any], spans: Sequence[Span], rows: Rows, state: State) -> None:
        """Runs a part of each prompt, from the start to the stop of its span. A long prompt takes several calls; the
        last one ends at the prompt's `length`, and must leave the slot ready for its first step."""


class Talker(PrefillsPrompt, Protocol):
    """The autoregressive model, from text to frames (codec tokens or latents of some milliseconds of speech).

    Each step makes the next frame of every request in the batch.
    """

    frame_shape: tuple[int, ...]
    frame_dtype: torch.dtype
    defaults: Sampling
    """The sampling settings that are used where a request sets none; every field has a value."""

    def state(self, slots: int) -> State:
        """Allocates what the talker keeps of requests beside the KV cache, one row for each slot. Called once."""

    def step(self, rows: Rows, state: State) -> Step:
        """Computes the next frame of these rows, and updates `state` in place.

        The call is captured as a CUDA graph on a GPU, or traced on a CPU, and replayed for later frames. So everything
        that changes between calls must be in `rows` and `state`. Mark code that branches on values with
        `device.trace.decides`.
        """


@runtime_checkable
class BeginsInPrefill(Protocol):
    """A talker that can run the first step's pass through its layers together with the prompt.

    The first frame then comes sooner.
    """

    begins: bool
    """Whether it does so. The engine sets this before anything is captured. If the padding of a prompt's launch has
    room for the pass, the talker sets `Prompt.is_begun`; if not, the first step is a usual one."""

    def first_step(self, rows: Rows, state: State) -> Step:
        """Makes the first frame of rows whose prompts have `is_begun` set: does what `step` does after the layers.

        Every row must emit a frame and none may stop, because the engine hands these frames on before it sees them.
        """


@runtime_checkable
class TakesText(Protocol):
    """A talker whose text may be appended to while it speaks."""

    def extend(self, tokens: Sequence[int], final: bool, rows: Rows, state: State) -> None:
        """Adds the tokens of more text to what the one request in `rows` is speaking; `final`: no more will come."""


@runtime_checkable
class CapturesPrefill(Protocol):
    """A worker that can record its prefill launches as CUDA graphs, as the engine does with its steps."""

    def capture(self, rows: Rows, most_positions: int) -> None:
        """Records the launches for prompts of up to `most_positions`. Called once, on a GPU, before the first request.

        `rows` has one slot, which belongs to no request and may be overwritten. Its tables and buffers are those that
        every later call gets, as a recorded launch always uses the same memory.
        """


@runtime_checkable
class CapturesReady(Protocol):
    """A worker that can record how it makes slots ready for their first step (`device.row_writes`) as a CUDA graph."""

    def capture_ready(self, rows: Rows, state: State) -> None:
        """Records these launches. Called once, on a GPU, before the first request. `rows` has one slot, which belongs
        to no request and may be overwritten; `state` is the one that every later call gets."""


@runtime_checkable
class Burst(Protocol):
    """A model without autoregression: one launch makes all frames of a prompt, for several requests at once.

    It keeps nothing of a request between launches. Neither the other prompts of a launch nor padding changes a result.
    """

    frame_shape: tuple[int, ...]
    frame_dtype: torch.dtype
    launch_size: int
    """The most that a launch works on, padding included: rows times length. It bounds the memory of a launch. A longer
    prompt runs alone."""

    def size(self, prompt: Any) -> int:
        """Returns how long a prompt is, in positions or frames. Launches hold prompts of about the same length. Called
        in the device loop, so it must be cheap."""

    def burst(self, prompts: Sequence[Any], seeds: Tensor, length: int) -> Sequence[Tensor]:
        """Returns the frames of each prompt, `[n, *frame_shape]`.

        `seeds [B]`: of each prompt, for `nn.philox`. `length`: what to pad all prompts to, at least the largest `size`,
        so that launches have few shapes. No host synchronisation: where the number of frames depends on values that
        the device computes, the worker `MeasuresFirst`.
        """


class Measurement(NamedTuple):
    """What the first launch of a burst made, with an entry for each prompt."""

    durations: Tensor  # [B, positions] integers: the frames of each position; 0 for padding
    kept: Sequence[Any]
    """What the second launch needs, such as tensors on the device."""


@runtime_checkable
class MeasuresFirst(Protocol):
    """A burst worker that needs two launches: the first says how many frames each prompt becomes.

    The durations are copied to the host in between, so that the second launches hold prompts of about as many frames.
    `burst` then gets a `Measured` in place of each prompt, and its `length` is in frames.
    """

    def measure(self, prompts: Sequence[Any], seeds: Tensor, length: int) -> Measurement:
        """Computes the durations. `length`: what to pad all prompts to, at least the largest `size`."""


@runtime_checkable
class EndsEarly(Protocol):
    """A burst worker whose prompts may end before the last frame that it returns: only the device knows where.

    One that cuts silence off is an example. What is beyond the end is not put into the stream.
    """

    def heard(self, prompts: Sequence[Any], frames: Sequence[Tensor]) -> Tensor:
        """Returns how many frames of each prompt are to be heard, `[B]` integers, for what `burst` has returned. No
        host synchronisation."""


class StreamWorker(Protocol):
    """Works on the frames of a stream. Its output does not depend on how the frames are cut into windows."""

    reach: Reach

    def state(self, slots: int) -> State: ...

    def decode(self, window: Window, rows: Rows, state: State) -> Tensor:
        """Processes the window's due frames, and advances the state by those of them that are present."""


@runtime_checkable
class OpensStream(Protocol):
    """A stream worker that needs the payload of a request before it can decode the request's first frames."""

    def open(self, payloads: Sequence[Any], rows: Rows, state: State, sizes: LaunchSizes | None) -> None:
        """Prepares the slots of several requests, each before its first window. `sizes`: the launch sizes that kernels
        are compiled for (`device.ragged`); None: any size may be launched."""


@runtime_checkable
class LimitsRows(Protocol):
    """A stream or burst worker whose launches are large: they have fewer rows than the deployment allows."""

    most_rows: int


@runtime_checkable
class TakesAllCores(Protocol):
    """A stream worker that may use several CPU cores for one row.

    While it decodes a request's first chunk, the talker makes no more frames of that request, to leave it the cores.
    """

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
    """A model that is one piece for the engine: it gets a prompt and yields audio, without frames, slots or batches."""

    def speak(self, prompt: Any, seed: int) -> Iterator[Samples | None]:
        """Yields each chunk of audio as soon as it is made. While it waits for more text it yields `None`, so that the
        engine can end it in between."""


@runtime_checkable
class Embedder(Protocol):
    """A worker that computes speaker embeddings; its stage has `embeds` set."""

    def embed(self, clip: Clip) -> tuple[float, ...]:
        """Returns the speaker embedding of a recording. May be called from any thread."""


@runtime_checkable
class KnowsQuick(Protocol):
    """A worker of a call stage for which some payloads are very little work, such as a voice without a recording."""

    def is_quick(self, payload: Any) -> bool:
        """Returns whether the call takes well under a millisecond. Such calls run in the thread that sends them."""


@runtime_checkable
class LooksAhead(Protocol):
    """A worker of a call stage that does a part of its work for many payloads at once, because that takes less time.

    Tokenising is such a part. Only payloads that `is_quick` allows are shown to it.
    """

    def look_ahead(self, payloads: Sequence[Any]) -> None:
        """Does that part of the work for requests that arrived together. The worker is called for each of them later.

        If this fails, the worker is called all the same, and raises the error of the request that is wrong.
        """


SHORT_CHARS = 512
"""Longer texts are prepared in another thread, because that takes longer than other clients should wait."""


def is_short(payload: Any) -> bool:
    """An `is_quick` for workers that tokenise: whether the payload is a request with a short text and no recording."""
    if not isinstance(payload, SpeechRequest):
        return False
    voice, texts = payload.voice, (payload.text, payload.instructions, payload.voice.description)
    return not (voice.references or voice.continued) and sum(len(text or "") for text in texts) <= SHORT_CHARS
