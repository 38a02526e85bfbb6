"""What the flow needs of a request: tokens and mel frames of the voice, and the speech's length. Imports no torch."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rhapsode.errors import InvalidRequest
from rhapsode.models.base import Prompt
from rhapsode.models.cosyvoice3.flow.settings import FlowSettings

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]


@dataclass
class FlowPrompt(Prompt):
    """The prompt of the flow. Its first chunks, which no later token changes, are prefilled and shared."""

    tokens: Ids = field(default_factory=lambda: np.zeros(0, np.int64))  # [P]
    mel: Floats = field(default_factory=lambda: np.zeros((0, 0), np.float32))  # [P * rate, mel]
    embedding: Floats = field(default_factory=lambda: np.zeros(0, np.float32))  # [E]

    @property
    def first(self) -> int:
        """The first token that is not prefilled."""
        return len(self.tokens) - self.offset


def flow_prompt(
    settings: FlowSettings,
    tokens: Ids,
    mel: Floats,
    embedding: Floats,
    max_frames: int,
    expected_frames: int | None = None,
) -> FlowPrompt:
    """Makes the prompt of a voice: its `tokens [P]` and `mel [P * rate, channels]`, maybe empty, and its embedding.

    `max_frames` and `expected_frames` count the tokens of the longest segment to be spoken.
    """
    rate, channels = settings.token_mel_ratio, settings.output_size
    mel = np.ascontiguousarray(mel, np.float32).reshape(-1, channels)
    tokens, embedding = np.asarray(tokens, np.int64), np.asarray(embedding, np.float32)
    if len(mel) != rate * len(tokens):
        raise InvalidRequest(
            f"A reference of {len(tokens)} tokens needs {rate * len(tokens)} mel frames, not {len(mel)}."
        )
    if embedding.shape != (settings.spk_embed_dim,):
        raise InvalidRequest(f"A speaker embedding has {settings.spk_embed_dim} numbers, not {embedding.size}.")
    if len(tokens) and not (tokens.min() >= 0 and tokens.max() < settings.vocab_size):
        raise InvalidRequest(f"Speech tokens are from 0 to {settings.vocab_size - 1}.")
    final = settings.final_chunks(len(tokens)) * settings.chunk_tokens
    return FlowPrompt(
        max_frames,
        length=final * rate,
        content=_content(settings, tokens, mel, embedding, final),
        offset=len(tokens) - final,
        expected_frames=expected_frames,
        tokens=tokens,
        mel=mel,
        embedding=embedding,
    )


def _content(settings: FlowSettings, tokens: Ids, mel: Floats, embedding: Floats, final: int) -> NDArray[np.uint8]:
    """Returns the bytes that decide each frame: its mel row, its token with the look-ahead, and the speaker."""
    ahead = np.arange(settings.pre_lookahead_len + 1)
    windows = np.repeat(tokens[np.arange(final)[:, None] + ahead], settings.token_mel_ratio, axis=0)
    rows = len(windows)
    speaker = np.frombuffer(hashlib.blake2b(embedding.tobytes(), digest_size=16).digest(), np.uint8)
    parts = (mel[:rows].view(np.uint8), windows.astype(np.int64).view(np.uint8), np.tile(speaker, (rows, 1)))
    return np.concatenate([part.reshape(rows, -1) for part in parts], axis=1) if rows else np.zeros((0, 1), np.uint8)
