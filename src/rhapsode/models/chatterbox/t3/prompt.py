"""Prompts as data: an id, a place and a row of the voice for each position.

The talker prefills all positions but the last, which is the same start token in every prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rhapsode.models.base import Prompt
from rhapsode.models.chatterbox.t3.sizes import START, T3Sizes
from rhapsode.models.chatterbox.voice import VoiceConditioning
from rhapsode.voices.cache import content_key

Ids = NDArray[np.int64]
Floats = NDArray[np.float32]

ID, PLACE, VOICE, FINGERPRINT = range(4)
"""Columns of a prompt's content: the row of the table of words, the row of the table of places, the row of the voice,
and a hash of all rows of the voice."""
COLUMNS = 4
NONE = -1
"""In the column of the voice: the position is none of the voice's rows."""
MOST_TOKENS = 1000
"""Speech tokens of one prompt, as upstream has it: 40 seconds."""
TEXT_START, TEXT_STOP = 255, 0
"""What is around a text, but not for Turbo."""


@dataclass
class T3Prompt(Prompt):
    """The talker's prompt."""

    voice_rows: Floats = field(default_factory=lambda: np.zeros((0, 0), np.float32))  # [voice rows, hidden]
    voice: VoiceConditioning | None = None
    cfg_weight: float = 0.0


class T3Layout:
    """Lays out the positions of prompts."""

    def __init__(self, sizes: T3Sizes) -> None:
        self._sizes = sizes
        self._nowhere = 0 if sizes.gpt2 else sizes.text_places + sizes.speech_places

    def rows(self, voice_rows: Floats, reference: Ids, text: Sequence[int]) -> Ids:
        """Returns all positions but the last: voice, reference (Turbo: its tokens), text, and the first start token.

        `text` has no start and no stop yet. Upstream gives the start token twice, but not to Turbo.
        """
        sizes = self._sizes
        voice = self._blank(sizes.voice_rows)
        voice[:, VOICE] = np.arange(sizes.voice_rows)
        if sizes.gpt2:
            found = [voice, self._words(reference + sizes.text_rows), self._words(text)]
        else:
            told = self._words([TEXT_START, *text, TEXT_STOP])
            told[:, PLACE] = np.arange(len(told))
            start = self._words([START + sizes.text_rows])
            start[:, PLACE] = sizes.text_places
            found = [voice, told, start]
        rows = np.concatenate(found)
        rows[:, FINGERPRINT] = _fingerprint(voice_rows)
        return rows

    def context(self, voice_rows: Floats, reference: Ids) -> Ids:
        """Returns the positions before the text, for a prompt that speaks nothing."""
        sizes = self._sizes
        return self.rows(voice_rows, reference, [])[: sizes.voice_rows + len(reference) * sizes.gpt2]

    def room(self, rows: Ids) -> int:
        """Returns how many tokens of speech there are positions for after these rows."""
        sizes = self._sizes
        return sizes.places - len(rows) - 1 if sizes.gpt2 else sizes.speech_places - 1

    @property
    def most_text(self) -> int:
        """The most ids of a text that there are places for."""
        return self._sizes.places if self._sizes.gpt2 else self._sizes.text_places - 2

    def blank(self) -> Ids:
        """Returns a position of padding."""
        return self._blank(1)[0]

    def _words(self, ids: Sequence[int] | Ids) -> Ids:
        rows = self._blank(len(ids))
        rows[:, ID] = ids
        return rows

    def _blank(self, count: int) -> Ids:
        rows = np.zeros((count, COLUMNS), np.int64)
        rows[:, PLACE], rows[:, VOICE] = self._nowhere, NONE
        return rows


def _fingerprint(voice_rows: Floats) -> int:
    """Returns a hash of the rows that a voice has: prompts share pages by content, and these rows are part of it."""
    return int.from_bytes(content_key(np.ascontiguousarray(voice_rows).tobytes())[:8], "little", signed=True)
