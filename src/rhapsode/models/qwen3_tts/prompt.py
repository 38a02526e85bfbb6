"""Prompts as data: the text id, the codec ids and the speaker of each position. The talker embeds and adds them.

The talker prefills all positions but the last. The last one is the input of the first step: its codec side is `last`,
its text side the first of the `text` tokens, of which every step takes one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rhapsode.models.base import Prompt
from rhapsode.models.qwen3_tts.config import QwenConfig

Ids = NDArray[np.int64]

NONE = -1
"""There is no id at this position."""
TEXT, FIRST_CODE = 0, 1
"""Columns of a prompt's content: the text id, one id per codebook, the speaker's fingerprint."""
SPEAKER = -1
MOST_HEADS = 256
"""The most beginnings of prompts that are cached: one for each language and preset."""


@dataclass
class QwenPrompt(Prompt):
    """The talker's prompt, and the codes that the codec decodes before the first frame."""

    last: Ids = field(default_factory=lambda: np.zeros(0, np.int64))  # [G]
    text: list[int] = field(default_factory=list)
    speaker: NDArray[np.float32] | None = None  # [hidden]
    reference_codes: Ids | None = None  # [F, G]: decoded before the first frame, and not part of the result
    subtalker: tuple[float, int, float] = (0.9, 50, 1.0)
    """Temperature, top-k and top-p of the codes after the first."""

    def last_row(self, no_text: int) -> Ids:
        """Returns the content of the last position, which is the input of the first step."""
        return np.concatenate([self.text[:1] or [no_text], self.last, [0]])


@dataclass
class QwenScript:
    """Everything a prompt is made from, once references are encoded."""

    role: list[int]
    text: list[int]
    """The tokens known so far: all of them, unless `open`."""
    language: int | None = None
    """The codec id of the language; `None` lets the model detect it."""
    instruct: list[int] = field(default_factory=list)
    preset: int | None = None
    speaker: NDArray[np.float32] | None = None
    reference_text: list[int] = field(default_factory=list)
    reference_codes: Ids | None = None
    non_streaming: bool = False
    open: bool = False

    def beside(self) -> int:
        """Returns how many tokens of the text share positions with the reference's codes. Negative: the transcript is
        longer than the codes."""
        if self.reference_codes is None or self.non_streaming:
            return 0
        return len(self.reference_codes) - len(self.reference_text)


class PromptBuilder:
    """Builds the positions of a prompt."""

    def __init__(self, config: QwenConfig) -> None:
        self._text, self._codec = config.text, config.tokens
        self._blank = np.full((1, 1 + config.groups + 1), NONE, np.int64)
        self._blank[:, SPEAKER] = 0
        self._silent = self._blank.copy()  # a position of the text, where the codec is silent
        self._silent[:, FIRST_CODE] = self._codec.codec_pad_id
        self._begin = self._blank[0, 1:SPEAKER].copy()  # the codec's begin
        self._begin[0] = self._codec.codec_bos_id
        self._preset_head = lru_cache(maxsize=MOST_HEADS)(self._head)

    def build(self, script: QwenScript) -> tuple[Ids, Ids, list[int]]:
        """Returns the content of all positions but the last; then the last one's codec ids and the text from it on."""
        rows = [self._rows(script.instruct)] if script.instruct else []
        if script.speaker is None:
            rows.append(self._preset_head(tuple(script.role), script.language, script.preset))
        else:
            rows.append(self._head(tuple(script.role), script.language, None, fingerprint(script.speaker)))
        end = [] if script.open else [self._text.tts_eos_token_id]
        text = [*script.reference_text, *script.text, *end]
        if script.non_streaming:
            rows.append(self._rows(text, self._silent))
            text = []
        codes = script.reference_codes
        if codes is None or not len(codes):
            return np.concatenate(rows), self._begin, text
        beside, text = text[: len(codes)], text[len(codes) :]
        rows.append(self._rows(beside + [self._text.tts_pad_token_id] * (len(codes) - len(beside))))
        rows[-1][:, 1:SPEAKER] = np.concatenate([self._begin[None], codes[:-1]])
        return np.concatenate(rows), codes[-1], text

    def plain(self, script: QwenScript, length: int) -> int:
        """Returns how many of `length` positions come before any speaker embedding and any codes of a reference."""
        if script.speaker is not None:
            return len(script.instruct) + len(script.role) + len(self._tags(script.language))
        return length - (0 if script.reference_codes is None else len(script.reference_codes))

    def _head(self, role: tuple[int, ...], language: int | None, preset: int | None, speaker: int = 0) -> Ids:
        """Returns the positions of role, language and speaker, which is a preset or the fingerprint of an embedding.

        The begin token after them belongs to the text or the codes.
        """
        tags = self._tags(language)
        voice = [NONE] if speaker else [] if preset is None else [preset]
        ids = [*tags, *voice, self._codec.codec_pad_id]
        rows = self._rows([*role, *[self._text.tts_pad_token_id] * (len(ids) - 1), self._text.tts_bos_token_id])
        rows[len(role) :, FIRST_CODE] = ids
        if speaker:
            rows[len(role) + len(tags), SPEAKER] = speaker
        return rows

    def _tags(self, language: int | None) -> list[int]:
        codec = self._codec
        if language is None:
            return [codec.codec_nothink_id, codec.codec_think_bos_id, codec.codec_think_eos_id]
        return [codec.codec_think_id, codec.codec_think_bos_id, language, codec.codec_think_eos_id]

    def _rows(self, text: list[int], like: Ids | None = None) -> Ids:
        """Returns positions with these text ids; their other columns are empty, or those of `like`."""
        rows = (self._blank if like is None else like).repeat(len(text), axis=0)
        rows[:, TEXT] = text
        return rows


def fingerprint(speaker: NDArray[np.float32]) -> int:
    """Returns a hash of a speaker embedding: prompts share pages by content, and the embedding is part of it."""
    digest = hashlib.blake2b(speaker.astype(np.float32).tobytes(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True) or 1
