"""A request inside a device stage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from rhapsode.device.marks import Mark, PaceChange, SegmentEnd, Silence, SpeakerChange
from rhapsode.device.pages import Key
from rhapsode.engine.job import Job
from rhapsode.engine.script import SpokenSection
from rhapsode.errors import Runaway
from rhapsode.models.base import Measured, Prompt
from rhapsode.types import FinishReason

if TYPE_CHECKING:
    from torch import Tensor

UNLIMITED = (1 << 63) - 1
NO_PROMPT = Prompt(max_frames=0)


@dataclass(eq=False)
class PromptRow:
    """A request whose prompt is prefilled into keys and values."""

    job: Job
    prompt: Prompt
    keys: list[Key] = field(default_factory=list)
    """The keys of the prompt's whole pages, as `pages.page_keys` makes them."""
    reserve: int = 0
    """Positions it gets pages for when it joins: all it can need, or those of its prompt if pages are taken block by
    block."""
    expected: int = 0
    """Positions it probably needs in all, and `most`, the most it may need: only if pages are taken block by block."""
    most: int = 0
    used: int = 0
    """Positions of its prompt and of the blocks launched so far: only if pages are taken block by block."""
    part: int = 0
    """How many prompts of the same request came before this one."""
    draw: int = 0
    """Added to the seed, so that no two prompts of a request draw the same numbers."""
    base: int = 0
    """Position of the prompt's first row: above 0 where the prompt continues what is already in the slot."""
    first_step: int = 0
    """The step counter of its first step: counting goes on where the prompt continues another."""
    pages: list[int] = field(default_factory=list)
    filled: int = 0
    """How many rows of the prompt have their keys and values computed."""
    first_pass_ran: bool = False
    """The pass of the first step through the talker's layers has run with the prompt."""

    @property
    def slot(self) -> int:
        return self.job.slot


@dataclass(eq=False)
class FrameRow(PromptRow):
    """A prompt of a request that a talker speaks."""

    limit: int = 0
    """Steps after which it is cut."""
    as_asked: bool = False
    """Whether `limit` is what the request asked for."""
    asked: bool = False
    """The next prompt has been asked for, or there is none."""
    expects: bool = False
    """The next prompt is on its way or here."""
    opens: SpokenSection | None = None
    """The section that begins with this prompt."""
    next_opens: bool = False
    """The next prompt begins a section."""
    following: FrameRow | None = None
    """The next prompt, once it is here."""
    spoken: bool = False
    """The talker has ended this prompt; only the next prompt is awaited."""

    def follow(self, before: FrameRow | None) -> None:
        """Sets the row up to follow the prompt before it, or to open a section of the text."""
        if before is not None and not before.next_opens:
            self.draw = before.draw + (before.prompt.max_frames > 0)  # context alone draws nothing
            return
        self.opens = self.job.script.current
        self.draw = self.opens.draw
        if before is not None:
            self.prompt = replace(self.prompt, new_segment=True, continues=False)

    def sequel(self) -> Any:
        """Returns what `Prompt.following` does, for the next prompt: of this section or of the next one."""
        payload = self.prompt.following() if self.prompt.following is not None else None
        if payload is None:
            payload, self.next_opens = self.job.script.next(), True
        return payload

    def go_on_after(self, before: FrameRow, steps: int, page_size: int) -> None:
        """Sets where this row goes on in the slot, after so many steps of the row before it.

        If there is no room left to speak, the row starts with an empty context, if its prompt has one for that.
        """
        prompt, base = self.prompt, before.base + before.prompt.length + steps
        room = len(before.pages) * page_size - base
        if prompt.afresh is not None and prompt.length + prompt.silent_steps + prompt.max_frames > room:
            self.prompt, self.keys = prompt.afresh, []
        else:
            self.base, self.first_step = base, before.first_step + steps

    def plan(self, most: int) -> int:
        """Sets how many steps the row may have and how many positions it reserves, at most `most`.

        Returns the positions that the row needs before its first frame.
        """
        prompt, request = self.prompt, self.job.request
        silent = prompt.silent_steps if prompt.max_frames else 0
        needed = self.base + prompt.length + silent
        wishes = (request.max_frames, prompt.wanted_frames)
        asked = [frames - self.job.frames for frames in wishes if frames is not None]
        frames = min(prompt.max_frames, most - needed, *asked)
        self.as_asked = frames in asked
        self.limit = frames + silent if frames > 0 else 0
        self.reserve = min(most, max(prompt.positions, needed + max(frames, 0)))
        return needed

    def cut(self) -> None:
        """Tells the job that the speech was cut: at the length the request asked for, or because it ran away."""
        if self.as_asked:
            self.job.reason = FinishReason.LENGTH
            return
        heard = self.limit - self.prompt.silent_steps
        self.job.run_away(Runaway(f"no end within the {heard} frames this request may have; the speech was cut."))

    @property
    def steps_allowed(self) -> int:
        """Steps for which its text so far is enough."""
        steps = self.prompt.feed.steps() if self.prompt.feed else None
        return UNLIMITED if steps is None else steps

    def marks(self) -> Iterator[Mark]:
        """Yields the marks to put before the first frame of this prompt."""
        if self.part and self.prompt.new_segment:
            yield SegmentEnd()
        if self.prompt.silence_s:
            yield Silence(self.prompt.silence_s)
        if self.opens is not None and self.opens.pause_s:
            yield Silence(self.opens.pause_s, is_pause=True)
        if self.opens is not None and (self.part or self.opens.pace != 1.0):
            yield PaceChange(self.opens.pace)
        if self.opens is not None and self.job.request.segments:
            yield SpeakerChange(self.opens.speaker)

    @property
    def is_last(self) -> bool:
        """Whether no prompt of this request follows."""
        return self.asked and not self.expects


class Progress(Enum):
    """How far the prompt of a burst is."""

    WAITING = "for its next launch"
    LAUNCHED = "its results are not here"
    MADE = "its frames are here"


@dataclass(eq=False)
class BurstRow(FrameRow):
    """A prompt of a request that a burst stage speaks. The following ones may be launched before it has been heard."""

    following: BurstRow | None = None
    size: int = 1
    """How long it is, in what its next launch counts."""
    measured: Measured | None = None
    progress: Progress = Progress.WAITING
    frames: Tensor | None = None
    """What was made and is not in the stream yet, `[n, *frame_shape]`."""
    made: int = 0
    """How many frames were made in all."""
    sent: int = 0
    """How many of them were put into the stream, or are on their way there."""
    arriving: int = 0
    """How many of these are on their way."""
    begun: bool = False
    """All prompts before it are in the stream."""
    work_s: float = 0.0
    """Its share of the time of its launches."""

    def chain(self) -> Iterator[BurstRow]:
        """Yields this row and those that follow it in the same request."""
        row: BurstRow | None = self
        while row is not None:
            yield row
            row = row.following

    @property
    def work(self) -> Prompt | Measured:
        """What its next launch works on."""
        return self.measured or self.prompt

    @property
    def runs_away(self) -> bool:
        """Whether its first launch has found that it has more frames than a text of its length can need."""
        return self.measured is not None and self.measured.frames > self.prompt.max_frames

    @property
    def is_waiting(self) -> bool:
        """Whether nothing is to be done for it before its launch has ended, or the next prompt is here."""
        waits_for_next = self.spoken and self.following is None and not self.is_last
        return self.begun and (self.progress is not Progress.MADE or waits_for_next)

    @property
    def heard(self) -> int:
        """How many of the frames that were made are to be heard."""
        return min(self.made, self.limit)

    @property
    def is_sent(self) -> bool:
        """Whether all frames that are to be heard are in the stream."""
        return self.progress is Progress.MADE and self.sent >= self.heard and not self.arriving


@dataclass(eq=False)
class StreamRow(PromptRow):
    """A request whose frames a streaming stage works on."""

    prompt: Prompt = field(default_factory=lambda: NO_PROMPT)
    payload: Any = None
    arrived: bool = False
    """Its payload is here."""
    opened: bool = False
    """Frames of it will come."""
    prefilled: bool = False
    grid_at: int = 0
    """The frame at which its grid of blocks starts."""
