"""What a family makes of a request: typed, ready for the workers. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rhapsode.types import SpeechRequest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class TextFeed(Protocol):
    """Takes text that arrives while a request is spoken, and says how far the talker may go on it."""

    def push(self, text: str) -> Sequence[int]:
        """Takes more text; returns the tokens that are certain now, for `Traits.extend`."""

    def close(self) -> Sequence[int]:
        """No more text will come; returns the remaining tokens."""

    def steps(self) -> int | None:
        """How many frames the talker may make with the text so far; `None` once this feed takes no more text."""


class TextSink(Protocol):
    """Takes text that arrives while a generator speaks; the generator reads it from the same object."""

    def push(self, text: str) -> None: ...
    def close(self) -> None: ...


class Following(Enum):
    """What `Prompt.following` may return instead of the next prompt."""

    NOT_YET = "more text may come: ask again when some has"


@dataclass
class Prompt:
    """What a family makes of a request. Families add what their workers need."""

    max_frames: int
    """A model that makes more frames has run away and is cut, because no text of this length needs more. 0: the prompt
    is context only. It ends once it is prefilled, and a prompt that continues it is spoken."""
    wanted_frames: int | None = None
    """The most frames that the user allows in the family's own options: an end there is no runaway."""
    silent_steps: int = 0
    """Steps before the one that emits the first frame, as a delay pattern has them. Limits count frames that are heard:
    these steps come on top."""
    length: int = 0
    """Positions to prefill before the first step."""
    content: NDArray[np.generic] | None = None
    """`[length, ...]`, one row per position with everything that decides it. Prefix sharing compares these rows."""
    brief: tuple[int, int] = (0, 0)
    """The number of columns of `content` that decide its first positions, and the number of these positions. There, all
    other columns are the same in every prompt, so prefix sharing does not compare them."""
    feed: TextFeed | None = None
    following: Callable[[], Any] | None = None
    """Names the next prompt of a text that is too long for one: returns what the pipeline's first stage is sent to
    prepare it (a `Part`, say), `None` at the end, or `Following.NOT_YET`. It is called in the device loop and must be
    cheap; the work is done by the call stages, while this prompt is still being spoken."""
    continues: bool = False
    """For a following prompt: prefill goes on after the positions the slot has, which stay in its context. Otherwise
    the talker starts with an empty context."""
    afresh: Prompt | None = None
    """For a following prompt that continues: the prompt to prefill instead, in an empty context, if the slot has too
    few positions left."""
    positions: int = 0
    """Positions to reserve for the whole request, where prompts that continue this one need more than it does."""
    new_segment: bool = False
    """For a following prompt: later stages flush their look-ahead before it and start with fresh state."""
    silence_s: float = 0.0
    """Exact silence before this prompt's audio."""
    offset: int = 0
    """For a stage that works in blocks: frames by which its first block is shorter. If it is a whole block or more, the
    first launches have no frame to work on, only the look-ahead."""
    expected_frames: int | None = None
    """How many frames there usually are, for a stage that takes pages block by block; by default `max_frames`."""


@dataclass(frozen=True)
class Measured:
    """A prompt of a burst stage after its first launch, for a worker with the trait `measure`."""

    prompt: Any
    kept: Any
    """What the first launch left for the second one, such as tensors on the device."""
    durations: NDArray[np.int64]
    """The frames of each of its positions."""

    @property
    def frames(self) -> int:
        return int(self.durations.sum())


@dataclass
class GeneratorPrompt:
    """What a family with a generator stage makes of a request. Families add what their generator needs."""

    feed: TextSink | None = None
    """Set where more text will be appended."""


@dataclass(frozen=True)
class Part:
    """The rest of a long text, on its way to the stage that prepares prompts."""

    request: SpeechRequest
    texts: tuple[str, ...]
    """What is left to say, cut where a prompt should end."""


class Span(NamedTuple):
    """Rows `[start, stop)` of a prompt, and the position of its first row in the slot."""

    start: int
    stop: int
    base: int = 0
