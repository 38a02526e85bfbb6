"""Prompts as data: a text id and the codes of each position. The talker embeds and adds them.

The talker prefills all positions but the last, which is the input of the first step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rhapsode.checkpoints.sentencepiece import SentencePiece
from rhapsode.models.base import Prompt
from rhapsode.models.moss_tts_nano.config import MossConfig

Ids = NDArray[np.int64]

_USER, _REFERENCE, _NONE = "user\n", "<user_inst>\n- Reference(s):\n", "None"
_FIELDS = ("Instruction", "Tokens", "Quality", "Sound Event", "Ambient Sound", "Language")
_BEFORE_TEXT = "".join(f"\n- {name}:\nNone" for name in _FIELDS) + "\n- Text:\n"
_AFTER_TEXT, _BREAK, _ASSISTANT = "\n</user_inst>", "\n", "assistant\n"


@dataclass
class MossPrompt(Prompt):
    """The talker's prompt, and the codes that the codec decodes before the first frame."""

    last: Ids = field(default_factory=lambda: np.zeros(0, np.int64))  # [1 + books]
    heard: Ids | None = None  # [F, books]: decoded before the first frame, and not part of the result
    books: int = 1
    """How many codebooks are generated."""
    ending: tuple[float, int, float] = (1.0, 50, 1.0)
    """Temperature, top-k and top-p of the decision to end."""


@dataclass(frozen=True)
class Script:
    """Everything a prompt is made from, once the reference is encoded."""

    text: Sequence[int]
    """The transcript of a continued reference, and the text to speak."""
    reference: Ids | None = None  # [F, books], the voice to sound like
    continued: Ids | None = None  # [F, books], speech to continue


class MossPromptBuilder:
    """Builds the rows of a prompt; the template's pieces are tokenised once, each by itself as upstream does."""

    def __init__(self, config: MossConfig, tokenizer: SentencePiece) -> None:
        self._config = config
        tokens = config.tokens
        start, end = tokens.im_start_token_id, tokens.im_end_token_id

        def ids(piece: str) -> list[int]:
            return tokenizer.encode(piece, symbols=True)

        self._head = [start, *ids(_USER), *ids(_REFERENCE)]
        self._no_reference = ids(_NONE)
        self._before_text = ids(_BEFORE_TEXT)
        self._after_text = [*ids(_AFTER_TEXT), end, *ids(_BREAK), start, *ids(_ASSISTANT)]

    def build(self, script: Script) -> Ids:
        """Returns all rows, [T, 1 + books]: text ids, then codes or the pad id."""
        text = [*script.text, *self._after_text, self._config.tokens.audio_start_token_id]
        parts = [self.build_context(script), self._rows(text)]
        if script.continued is not None:
            parts.append(self._frames(script.continued, self._config.tokens.audio_assistant_slot_token_id))
        return np.concatenate(parts)

    def build_context(self, script: Script) -> Ids:
        """Returns the rows before the text."""
        tokens = self._config.tokens
        before = self._rows([*self._head, *self._no_reference])
        if script.reference is not None:
            before = np.concatenate(
                [
                    self._rows([*self._head, tokens.audio_start_token_id]),
                    self._frames(script.reference, tokens.audio_user_slot_token_id),
                    self._rows([tokens.audio_end_token_id]),
                ]
            )
        return np.concatenate([before, self._rows(self._before_text)])

    def _rows(self, ids: list[int]) -> Ids:
        rows = np.full((len(ids), 1 + self._config.books), self._config.tokens.audio_pad_token_id, np.int64)
        rows[:, 0] = ids
        return rows

    def _frames(self, codes: Ids, slot: int) -> Ids:
        rows = self._rows([slot] * len(codes))
        rows[:, 1:] = codes
        return rows
