"""Prompts before their references are encoded, and the texts that follow them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rhapsode.models.higgs.prompt import RepetitionWindow
from rhapsode.models.turn_feed import next_of
from rhapsode.text.turns import TurnStream
from rhapsode.types import Clip, SpeechRequest

Piece = list[int] | Clip | NDArray[np.int64]
"""Tokens, a recording whose rows go here, or rows of codes `[n, books]`."""
Rest = tuple[str, ...] | TurnStream
"""The texts that are left to say, or the stream that they come from."""


@dataclass(frozen=True)
class HiggsDraft:
    """A prompt before its references are encoded."""

    pieces: list[Piece]
    max_frames: int = 0
    """0: the prompt is context only."""
    repetition: RepetitionWindow = field(default_factory=RepetitionWindow)
    later_positions: int = 0
    """Positions that the prompts that continue this one need."""
    following: Callable[[], Any] | None = None
    feed: TurnStream | None = None
    continues: bool = False
    new_segment: bool = False
    afresh: HiggsDraft | None = None
    """The same text with a new context, for when there is no room to continue."""


@dataclass(frozen=True)
class NextText:
    """The next text of a request, sent to the prepare stage while the text before it is spoken."""

    request: SpeechRequest
    text: str
    rest: Rest
    is_first: bool = False
    """Whether nothing was spoken before."""


def following_of(request: SpeechRequest, rest: Rest, is_first: bool = False) -> Callable[[], Any] | None:
    """Returns the `Prompt.following` of a prompt: a function that returns the next text."""
    if isinstance(rest, tuple):
        return (lambda: NextText(request, rest[0], rest[1:], is_first)) if rest else None
    return next_of(rest, lambda text: NextText(request, text, rest, is_first))
