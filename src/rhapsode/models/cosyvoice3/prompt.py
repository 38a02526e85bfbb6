"""Prompts as data: one id per position. The ids of speech tokens begin where those of text tokens end.

The talker prefills all positions but the last, which is the input of the first step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rhapsode.models.base import Prompt
from rhapsode.models.cosyvoice3.config import CosyConfig

Ids = NDArray[np.int64]

LEAST_PER_TEXT_TOKEN, MOST_PER_TEXT_TOKEN = 2, 20
"""Speech tokens that a token of text needs at least and at most, as upstream counts."""
NEVER = -1
"""The value of `CosyPrompt.fill_after` for a prompt without such a limit."""


@dataclass(frozen=True)
class CosyVoice:
    """The encoded reference that the flow continues, and the speaker's vector."""

    tokens: Ids  # [P], maybe none
    mel: NDArray[np.float32]  # [P * token_mel_ratio, bands]
    embedding: NDArray[np.float32]  # [embedding size]


@dataclass
class CosyPrompt(Prompt):
    """The talker's prompt. Without `last` it is context only, and nothing is spoken."""

    last: Ids = field(default_factory=lambda: np.zeros((0, 1), np.int64))  # [0 or 1, 1]
    least_frames: int = 0
    """Steps before which speech may not end."""
    enforced: bool = True
    """Whether `least_frames` is enforced; upstream only masks one id that the model never draws."""
    fill_after: int = NEVER
    """Steps after which the turn of speech ends with the fill token, if the model has not drawn it before."""
    voice: CosyVoice | None = None
    segment_frames: int = 0
    """Of the first prompt: the most frames that any segment of the request may have."""


@dataclass(frozen=True)
class CosyScript:
    """What all prompts of a request have in common."""

    head: list[int]
    """The system line or an instruction, up to the token that ends it."""
    transcript: list[int]
    """Tokens of the reference's transcript, if its speech is in the language model's prompt."""
    speech: Ids
    """The reference's tokens for the language model, [P]."""
    voice: CosyVoice
    most_frames: int
    """Speech tokens that the flow has room for after the reference."""
    counted: int = 0
    """Tokens of the head that count as text in the limits of the length."""
    enforced: bool = True


class CosyLayout:
    """Lays out the positions of prompts."""

    def __init__(self, config: CosyConfig) -> None:
        self._first_speech = config.layers.vocab_size
        self._sos, self._task = config.sos, config.task

    def whole(self, script: CosyScript, text: Sequence[int]) -> Ids:
        """Returns all rows for a complete text: sos, head, transcript, text, task, the reference's speech."""
        return np.concatenate((self.opening(script), self.rest(script, text)))

    def opening(self, script: CosyScript) -> Ids:
        return np.concatenate((self.speech([self._sos]), self.text(script.head)))

    def rest(self, script: CosyScript, text: Sequence[int]) -> Ids:
        """Returns what follows the opening."""
        words = self.text([*script.transcript, *text])
        return np.concatenate((words, self.speech([self._task]), self.speech(script.speech)))

    def ending(self, text: Sequence[int]) -> Ids:
        """Returns the rows of the last text of a segment that is spoken in turns, and the task token."""
        return np.concatenate((self.text(text), self.speech([self._task])))

    def text(self, tokens: Sequence[int]) -> Ids:
        return np.array(tokens, np.int64).reshape(-1, 1)

    def speech(self, tokens: Sequence[int] | Ids) -> Ids:
        return np.asarray(tokens, np.int64).reshape(-1, 1) + self._first_speech


def whole_prompt(layout: CosyLayout, script: CosyScript, text: Sequence[int]) -> CosyPrompt:
    """Returns the prompt of a complete text."""
    rows = layout.whole(script, text)
    return spoken(rows, script, script.counted + len(text))


def spoken(rows: Ids, script: CosyScript, text_tokens: int) -> CosyPrompt:
    """Returns a prompt whose speech goes on until the model ends it; `text_tokens` limit its length."""
    most = min(MOST_PER_TEXT_TOKEN * text_tokens, script.most_frames)
    return CosyPrompt(
        max_frames=most,
        length=len(rows) - 1,
        content=rows[:-1],
        last=rows[-1:],
        least_frames=min(LEAST_PER_TEXT_TOKEN * text_tokens, most - 1),
        enforced=script.enforced,
        voice=script.voice,
    )
