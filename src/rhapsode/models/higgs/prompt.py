"""Prompts as data: a token and the codes of a row per position. The talker embeds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rhapsode.models.base import Prompt

Columns = NDArray[np.int64]  # [T, 1 + books]: a token, then the codes of an audio position, else `TEXT_CODE`
CodeRows = NDArray[np.int64]  # [T, books], delayed

TEXT_CODE = -1
"""The value of every code at a text position."""


@dataclass(frozen=True)
class RepetitionWindow:
    """Repetition-aware sampling: a code that is in `limit` of the last `rows` rows is drawn again; 0: none ever is."""

    rows: int = 0
    limit: int = 0


@dataclass
class HiggsPrompt(Prompt):
    """The talker's prompt. Without `last` it is context only, and nothing is spoken."""

    last: Columns = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    """[0 or 1, 1 + books]: the input of the first step."""
    repetition: RepetitionWindow = field(default_factory=RepetitionWindow)


def text_columns(ids: Sequence[int], books: int) -> Columns:
    """Returns the positions of tokens."""
    columns = np.full((len(ids), 1 + books), TEXT_CODE, np.int64)
    columns[:, 0] = ids
    return columns


def audio_columns(tokens: Sequence[int], rows: CodeRows) -> Columns:
    """Returns the positions of rows of codes; `tokens` are the ids that upstream has there."""
    return np.concatenate((np.array(tokens, np.int64)[:, None], rows), axis=1)


def audio_rows(columns: Columns) -> CodeRows:
    """Returns the rows of codes among these positions."""
    return columns[columns[:, 1] > TEXT_CODE, 1:]
