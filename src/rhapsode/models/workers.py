"""The interfaces of the workers that a family gives its stages. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rhapsode.types import Samples, Sampling, SpeechRequest

if TYPE_CHECKING:
    import torch
    from torch import Tensor

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


class Talker(Protocol):
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
        the device computes, the worker has the trait `measure`.
        """


class Measurement(NamedTuple):
    """What the first launch of a burst made, with an entry for each prompt."""

    durations: Tensor  # [B, positions] integers: the frames of each position; 0 for padding
    kept: Sequence[Any]
    """What the second launch needs, such as tensors on the device."""


class StreamWorker(Protocol):
    """Works on the frames of a stream. Its output does not depend on how the frames are cut into windows."""

    reach: Reach

    def state(self, slots: int) -> State: ...

    def decode(self, window: Window, rows: Rows, state: State) -> Tensor:
        """Processes the window's due frames, and advances the state by those of them that are present."""


class Codec(StreamWorker, Protocol):
    """Frames to waveform: `decode` returns `[B, channels, due * hop]`."""

    hop: int
    channels: int


class Converter(StreamWorker, Protocol):
    """Frames to other frames: `decode` returns `[B, due * rate, *frame_shape]`.

    It may have paged keys and values of its own (the trait `kv`): then `rate` positions of them belong to a frame.
    """

    rate: int
    frame_shape: tuple[int, ...]
    frame_dtype: torch.dtype


class Generator(Protocol):
    """A model that is one piece for the engine: it gets a prompt and yields audio, without frames, slots or batches."""

    def speak(self, prompt: Any, seed: int) -> Iterator[Samples | None]:
        """Yields each chunk of audio as soon as it is made. While it waits for more text it yields `None`, so that the
        engine can end it in between."""


SHORT_CHARS = 512
"""Longer texts are prepared in another thread, because that takes longer than other clients should wait."""


def is_short(payload: Any) -> bool:
    """An `is_quick` for workers that tokenise: whether the payload is a request with a short text and no recording."""
    if not isinstance(payload, SpeechRequest):
        return False
    voice, texts = payload.voice, (payload.text, payload.instructions, payload.voice.description)
    return not (voice.references or voice.continued) and sum(len(text or "") for text in texts) <= SHORT_CHARS
