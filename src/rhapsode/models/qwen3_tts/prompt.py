"""Prompts as data: the text id, the codec ids and the speaker of each position. The talker embeds and adds them.

The talker prefills all positions but the last. The last one is the input of the first step: its codec side is `last`,
its text side the first of the `text` tokens, of which every step takes one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rhapsode.models.base import Prompt
from rhapsode.models.qwen3_tts.config import QwenConfig

Ids = NDArray[np.int64]

NONE = -1
"""There is no id at this position."""
TEXT = 0
"""Columns of a prompt's content: the text id, one id per codebook, the speaker's fingerprint."""
SPEAKER = -1


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
        """The content of the last position, which is the input of the first step."""
        return np.concatenate([self.text[:1] or [no_text], self.last, [0]])


@dataclass(frozen=True)
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
        self._config = config
        self._text, self._codec = config.text, config.tokens

    def build(self, script: QwenScript) -> tuple[Ids, Ids, list[int]]:
        """Returns the content of all positions but the last, its codec ids, and its text token with all later ones."""
        head = [
            self._rows(script.instruct),
            self._rows(script.role),
            self._prefix(script),
        ]
        end = [] if script.open else [self._text.tts_eos_token_id]
        text = [*script.reference_text, *script.text, *end]
        codes = self._frames(script.reference_codes)  # [1 + F, G], the first is the codec's begin
        if script.non_streaming:
            head.append(self._rows(text, self._id(self._codec.codec_pad_id, len(text))))
            head.append(self._rows([self._text.tts_pad_token_id] * (len(codes) - 1), codes[:-1]))
            return np.concatenate(head), codes[-1], []
        beside = text[: len(codes) - 1]
        padded = beside + [self._text.tts_pad_token_id] * (len(codes) - 1 - len(beside))
        head.append(self._rows(padded, codes[:-1]))
        return np.concatenate(head), codes[-1], text[len(codes) - 1 :]

    def _prefix(self, script: QwenScript) -> Ids:
        """Returns the positions of language and speaker. The begin mark after them belongs to the text or the codes."""
        codec = self._codec
        if script.language is None:
            tags = [codec.codec_nothink_id, codec.codec_think_bos_id, codec.codec_think_eos_id]
        else:
            tags = [codec.codec_think_id, codec.codec_think_bos_id, script.language, codec.codec_think_eos_id]
        voice = [NONE] if script.speaker is not None else [] if script.preset is None else [script.preset]
        ids = [*tags, *voice, codec.codec_pad_id]
        text = [self._text.tts_pad_token_id] * (len(ids) - 1) + [self._text.tts_bos_token_id]
        first = np.full((len(ids), self._config.groups), NONE, np.int64)
        first[:, 0] = ids
        rows = self._rows(text, first)
        if script.speaker is not None:
            rows[len(tags), SPEAKER] = fingerprint(script.speaker)
        return rows

    def _frames(self, reference: Ids | None) -> Ids:
        begin = self._id(self._codec.codec_bos_id, 1)
        return begin if reference is None else np.concatenate([begin, reference])

    def _id(self, codec_id: int, count: int) -> Ids:
        """Returns positions with one id of the talker's codec vocabulary."""
        rows = np.full((count, self._config.groups), NONE, np.int64)
        rows[:, 0] = codec_id
        return rows

    def _rows(self, text: list[int], codec: Ids | None = None) -> Ids:
        rows = np.full((len(text), 1 + self._config.groups + 1), NONE, np.int64)
        rows[:, TEXT] = text
        if codec is not None:
            rows[:, 1:SPEAKER] = codec
        rows[:, SPEAKER] = 0
        return rows


def fingerprint(speaker: NDArray[np.float32]) -> int:
    """Returns a hash of a speaker embedding: prompts share pages by content, and the embedding is part of it."""
    digest = hashlib.blake2b(speaker.astype(np.float32).tobytes(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True) or 1
