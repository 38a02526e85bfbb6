"""What a worker can do beyond what its kind of stage needs. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from rhapsode.errors import ConfigError
from rhapsode.models.prompt import Span
from rhapsode.types import Clip

if TYPE_CHECKING:
    from torch import Tensor

    from rhapsode.device.kv import KVLayout
    from rhapsode.device.ragged import LaunchSizes
    from rhapsode.device.slots import Rows
    from rhapsode.models.workers import Measurement, Step


class BlockPages(NamedTuple):
    """Pages that a stage takes block by block, not for a request's whole life.

    A page holds the positions of one block. Prompts are whole pages, and no frame changes what is in them.
    """

    page_size: int
    """Positions of a block: its granularity times its rate."""
    most_positions: int
    """Positions that one request may have."""


@dataclass(frozen=True, kw_only=True)
class Traits:
    """A worker that can do any of this has a method `traits` that says so, with a method of its own for each.

    What it leaves out, the engine does without.
    """

    kv: tuple[KVLayout, ...] = ()
    """Of a talker, or of a converter with attention over the past: the shapes of its KV cache, one for each stack of
    layers. All use the same pages of a slot."""
    prefill: Callable[[Sequence[Any], Sequence[Span], Rows, Any], Sequence[bool] | None] | None = None
    """`(prompts, spans, rows, state)`: before a request's first step, its prompt is run to fill the KV cache. Runs a
    part of each prompt, from the start to the stop of its span. A long prompt takes several calls; the last one ends at
    the prompt's `length`, and must leave the slot ready for its first step. With the trait `first_step` it returns for
    which prompts the pass of that step ran with them."""
    capture: Callable[[Rows, int], None] | None = None
    """`(rows, most_positions)`: records the launches of `prefill` for prompts of up to `most_positions` as CUDA graphs.
    Called once, on a GPU, before the first request. `rows` has one slot, which belongs to no request and may be
    overwritten. Its tables and buffers are those that every later call gets, as a recorded launch always uses the same
    memory."""
    capture_ready: Callable[[Rows, Any], None] | None = None
    """`(rows, state)`: records how slots are made ready for their first step (`device.row_writes`). Called like
    `capture`; `state` is the one that every later call gets."""
    pages: BlockPages | None = None
    first_step: Callable[[Rows, Any], Step] | None = None
    """Of a talker that can run the first step's pass through its layers together with the prompt, if
    `StageContext.begins`: the first frame then comes sooner. Where the padding of a prompt's launch has room for the
    pass, `prefill` says so; elsewhere the first step is a usual one. `first_step(rows, state)` does what `step`
    does after the layers. Every row must emit a frame and none may stop, because the engine hands these frames on
    before it sees them."""
    extend: Callable[[Sequence[int], bool, Rows, Any], None] | None = None
    """Of a talker whose text may be appended to while it speaks. `(tokens, final, rows, state)`: adds the tokens of
    more text to what the one request in `rows` is speaking; `final`: no more will come."""
    open: Callable[[Sequence[Any], Rows, Any, LaunchSizes | None], None] | None = None
    """Of a stream worker that needs the payload of a request before it can decode the request's first frames.
    `(payloads, rows, state, sizes)`: prepares the slots of several requests, each before its first window. `sizes`: the
    launch sizes that kernels are compiled for (`device.ragged`); None: any size may be launched."""
    most_rows: int | None = None
    """Of a stream or burst worker whose launches are large: they have fewer rows than the deployment allows."""
    takes_all_cores: bool = False
    """Of a stream worker that may use several CPU cores for one row. While it decodes a request's first chunk, the
    talker makes no more frames of that request, to leave it the cores."""
    measure: Callable[[Sequence[Any], Tensor, int], Measurement] | None = None
    """Of a burst that needs two launches: the first says how many frames each prompt becomes. The durations are copied
    to the host in between, so that the second launches hold prompts of about as many frames. `burst` then gets a
    `Measured` in place of each prompt, and its `length` is in frames. `(prompts, seeds, length)`; `length`: what to pad
    all prompts to, at least the largest `size`."""
    heard: Callable[[Sequence[Any], Sequence[Tensor]], Tensor] | None = None
    """Of a burst whose prompts may end before the last frame that it returns, such as one that cuts silence off: only
    the device knows where. `(prompts, frames)`: returns how many frames of each prompt are to be heard, `[B]` integers,
    for what `burst` has returned. No host synchronisation. What is beyond the end is not put into the stream."""
    embed: Callable[[Clip], tuple[float, ...]] | None = None
    """Returns the speaker embedding of a recording; its stage has `embeds` set. May be called from any thread."""
    is_quick: Callable[[Any], bool] | None = None
    """Of a call stage for which some payloads are very little work, such as a voice without a recording: whether the
    call takes well under a millisecond. Such calls run in the thread that sends them."""
    look_ahead: Callable[[Sequence[Any]], None] | None = None
    """Of a call stage that does a part of its work, such as tokenising, for many payloads at once, because that takes
    less time: does it for requests that arrived together. Only payloads that `is_quick` allows are shown to it. The
    worker is called for each of them later. If this fails, it is called all the same, and raises the error of the
    request that is wrong."""

    def __post_init__(self) -> None:
        if bool(self.kv) != (self.prefill is not None):
            raise ConfigError("a worker has both 'kv' and 'prefill' among its traits, or neither.")

    def names(self) -> list[str]:
        """Returns the names of what the worker can do."""
        return [trait.name for trait in fields(self) if getattr(self, trait.name) != trait.default]


NONE = Traits()

_PROMPTS = ("kv", "prefill", "capture", "capture_ready")
TRAITS_OF: Mapping[str, tuple[str, ...]] = {
    "frame": (*_PROMPTS, "first_step", "extend"),
    "burst": ("measure", "heard", "most_rows", "extend"),
    "stream": (*_PROMPTS, "pages", "open", "most_rows", "takes_all_cores"),
    "call": ("embed", "is_quick", "look_ahead"),
    "generator": (),
}
"""What a worker may do beyond what it must, by the kind of its stage."""


def traits_of(worker: object) -> Traits:
    """Returns what a worker says that it can do."""
    found = getattr(worker, "traits", None)
    return NONE if found is None else found()
