"""The prepare stage: checks and tokenises requests, a batch of turns at a time. Drafts lack only encoded references."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rhapsode.errors import InvalidRequest
from rhapsode.models.base import StageContext, Traits, is_short
from rhapsode.models.fish_s2_pro import dialogue, tokenizer
from rhapsode.models.fish_s2_pro.config import read
from rhapsode.models.fish_s2_pro.prompt import Segments
from rhapsode.models.fish_s2_pro.spec import FishOptions
from rhapsode.models.parts import checkpoint_of
from rhapsode.models.turn_feed import next_of
from rhapsode.text.turns import TurnStream
from rhapsode.types import Clip, Reference, SpeechRequest

FRAMES_PER_TOKEN, SPARE_FRAMES = 24, 200
"""More than any text needs: 1.1 s a token (speech takes about 0.3 s), and nine seconds for pauses and breath."""
OPEN_POSITIONS = 4096
"""Positions that a text of unknown length reserves, for two minutes of speech and more. Then a new context begins."""
MOST_CHARS = 300
"""The most characters of a sentence, where text arrives while it is spoken."""


@dataclass(frozen=True)
class NextTurns:
    """The next turns of a request, sent to this stage while the turns before are spoken."""

    request: SpeechRequest
    text: str
    rest: tuple[str, ...] | TurnStream
    is_first: bool = False
    """Whether nothing was spoken before."""


@dataclass(frozen=True)
class FishDraft:
    """A prompt before its references are encoded: their codes go between `before` and `after`."""

    before: list[int]
    after: list[int]
    references: tuple[Clip, ...] = ()
    max_frames: int = 0
    """0: the prompt is context only."""
    later_positions: int = 0
    """Positions that the prompts that continue this one need."""
    following: Callable[[], Any] | None = None
    feed: TurnStream | None = None
    continues: bool = False
    new_segment: bool = False
    afresh: FishDraft | None = None
    """The same turns with a new context, for when there is no room to continue."""


class FishPrepare:
    """Turns a checked request into the draft of its first prompt, and each batch of turns after it into another."""

    def __init__(self, context: StageContext) -> None:
        folder = checkpoint_of(context)
        config = read(context.config)
        tokens = tokenizer.read_tokens(folder, config)
        self._segments = Segments(tokenizer.read(folder, tokens.phonemes), tokens, config.books)
        self._turn_marks = len(self._segments.turn(""))  # of a turn without any words

    def traits(self) -> Traits:
        return Traits(is_quick=is_short)

    def __call__(self, work: SpeechRequest | NextTurns) -> FishDraft:
        if isinstance(work, NextTurns):
            return self._next(work)
        check_references(work.voice.references)
        if work.text_open:
            return self._open(work)
        options: FishOptions = work.options
        spoken = [turn for turn in dialogue.turns(work.text) if _has_words(turn)]
        if not spoken:
            raise InvalidRequest("the text has speakers' tags and no words: there is nothing to say.", param="input")
        first, *rest = dialogue.batches(spoken, options.chunk_length)
        later = [self._segments.turn(text) for text in rest]
        needed = sum(len(turn) + self._most_frames(turn) + len(self._segments.closing()) for turn in later)
        return self._beginning(work, self._segments.turn(first), tuple(rest), later_positions=needed)

    def _open(self, request: SpeechRequest) -> FishDraft:
        """Returns the context of a text that arrives later: it is prefilled before the first sentence is complete."""
        stream = TurnStream(dialogue.TAG, MOST_CHARS)
        stream.push(request.text)
        return self._beginning(request, [], stream, is_first=True, later_positions=OPEN_POSITIONS)

    def _beginning(
        self,
        request: SpeechRequest,
        turn: list[int],
        rest: tuple[str, ...] | TurnStream,
        is_first: bool = False,
        later_positions: int = 0,
    ) -> FishDraft:
        """Returns the draft that begins a context; `turn` is empty where nothing is spoken yet."""
        references = request.voice.references
        segments = self._segments
        return FishDraft(
            segments.system(transcripts(references) if references else None),
            [*(segments.closing() if references else ()), *turn],
            tuple(reference.audio for reference in references),
            self._most_frames(turn) if turn else 0,
            later_positions,
            _following(request, rest, is_first),
            rest if isinstance(rest, TurnStream) else None,
        )

    def _next(self, work: NextTurns) -> FishDraft:
        turn, rest = self._segments.turn(work.text), work.rest
        afresh = self._beginning(work.request, turn, rest, later_positions=OPEN_POSITIONS)
        return FishDraft(
            [],
            turn if work.is_first else [*self._segments.closing(), *turn],
            max_frames=self._most_frames(turn),
            following=_following(work.request, rest),
            feed=rest if isinstance(rest, TurnStream) else None,
            continues=True,
            new_segment=not work.is_first,
            afresh=replace(afresh, new_segment=not work.is_first),
        )

    def _most_frames(self, turn: list[int]) -> int:
        return SPARE_FRAMES + FRAMES_PER_TOKEN * (len(turn) - self._turn_marks)


def check_references(references: Sequence[Reference]) -> None:
    """Raises `InvalidRequest` if a reference has no audio."""
    for reference in references:
        if not reference.audio.samples.size:
            raise InvalidRequest("a reference's audio is empty.", param="ref_audio")


def transcripts(references: Sequence[Reference]) -> str:
    """Returns the transcripts of references, one per line, each with a speaker tag: its index, unless it has a tag."""
    lines = []
    for i, reference in enumerate(references):
        words = dialogue.canonical(reference.text or "")
        lines.append(words if dialogue.is_tagged(words) else f"{dialogue.tag(i)}{words}")
    return "\n".join(lines)


def _following(
    request: SpeechRequest, rest: tuple[str, ...] | TurnStream, is_first: bool = False
) -> Callable[[], Any] | None:
    """Returns the `Prompt.following` of a prompt: a function that returns the next turns."""
    if isinstance(rest, tuple):
        return (lambda: NextTurns(request, rest[0], rest[1:])) if rest else None
    return next_of(rest, lambda turn: NextTurns(request, turn, rest, is_first))


def _has_words(turn: str) -> bool:
    return bool(dialogue.untagged(turn).strip())
