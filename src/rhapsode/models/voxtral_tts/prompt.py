"""Prompts as data: the token, the preset's row or the codes of each position. The talker embeds them.

A prompt is `<s> [BEGIN_AUDIO] voice [NEXT_AUDIO_TEXT] text [REPEAT_AUDIO_TEXT] [BEGIN_AUDIO]`. The talker prefills all
positions but the last, which is the input of the first step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rhapsode.models.base import Prompt
from rhapsode.models.voxtral_tts.tokenizer import Tekken
from rhapsode.models.voxtral_tts.voices import Preset

Rows = NDArray[np.int64]  # [positions, 3 + books]

ID, FINGERPRINT, ROW, CODES = 0, 1, 2, 3
"""Columns of a prompt's content: the token; the hash of a preset and its row in the table of presets; the codes of a
reference's frame."""
NONE = -1
"""Stands for no token, no row or no codes at a position."""


@dataclass
class VoxtralPrompt(Prompt):
    last: int = 0
    """The token of the last position."""
    cfg_alpha: float = 1.2


class PromptShell(NamedTuple):
    """The positions of a prompt around its voice, and the last token."""

    before: Rows
    after: Rows
    last: int


class VoxtralPromptBuilder:
    """Builds the positions of prompts."""

    def __init__(self, tokenizer: Tekken, books: int) -> None:
        self._books = books
        self._begin = tokenizer.special("<s>")
        self._audio, self._begin_audio = tokenizer.special("[AUDIO]"), tokenizer.special("[BEGIN_AUDIO]")
        self._before_text = tokenizer.special("[NEXT_AUDIO_TEXT]")
        self._after_text = tokenizer.special("[REPEAT_AUDIO_TEXT]")

    def shell(self, text: list[int]) -> PromptShell:
        before = self._tokens([self._begin, self._begin_audio])
        return PromptShell(before, self._tokens([self._before_text, *text, self._after_text]), self._begin_audio)

    def preset(self, preset: Preset, positions: int) -> Rows:
        """Returns the positions of a preset. Positions past its last row keep the embedding of the audio token."""
        rows = self._tokens([self._audio] * positions)
        count = min(positions, preset.count)
        rows[:, FINGERPRINT] = preset.fingerprint
        rows[:count, ROW] = preset.first + np.arange(count)
        return rows

    def _tokens(self, ids: list[int]) -> Rows:
        rows = _blank(len(ids), self._books)
        rows[:, ID] = ids
        return rows


def reference_rows(codes: NDArray[np.int64]) -> Rows:
    """Returns the positions of an encoded reference, `codes [frames, books]`."""
    rows = _blank(*codes.shape)
    rows[:, CODES:] = codes
    return rows


def _blank(positions: int, books: int) -> Rows:
    rows = np.full((positions, CODES + books), NONE, np.int64)
    rows[:, FINGERPRINT] = 0
    return rows
