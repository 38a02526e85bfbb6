"""The talker's training data: whole prompts with their frames, as rows of ids on the device."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import tokenizer
from rhapsode.checkpoints import qwen2_tokenizer as served
from rhapsode.models.qwen3_tts.config import QwenConfig
from rhapsode.models.qwen3_tts.feed import ROLE, ROLE_TOKENS
from rhapsode.models.qwen3_tts.prompt import PromptBuilder, QwenScript

Codes = NDArray[np.integer]

IGNORED = -100
CLONED = -2
"""Stands where a prompt has a speaker vector in place of a preset."""
LEAD = 2
"""Frames of silence before text that comes one token per frame: its first word must be known before it is spoken."""
DROPOUT = 0.1
"""Of the tokenizer's merges, for every other sentence."""
LADDER = (48, 64, 80, 96, 112, 128, 160, 192, 256, 384, 512)
"""Lengths that prompts are padded to."""


class Choice(NamedTuple):
    """The prompts of a batch: their starts and lengths."""

    longest: int
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]


class Batch(NamedTuple):
    rows: Tensor  # [B, T, 1 + G]: a text id, and the ids of a frame or of a mark; negative: none
    first: Tensor  # [B, T], the code that comes next; IGNORED where nothing is asked
    frames: Tensor  # [B, T, G], the frame that comes next
    speakers: Tensor  # [B, hidden], of prompts with a speaker vector


class Writer:
    """Turns a text and its codes into rows, in the layout that is served."""

    def __init__(self, config: QwenConfig, folder: Path, seed: int) -> None:
        self._config = config
        self._builder = PromptBuilder(config)
        self._exact = served.read(folder)
        self._loose = tokenizer.read(folder, DROPOUT)
        self._rng = random.Random(seed)
        self._presets = list(config.tokens.spk_id.values())
        (self._language,) = set(config.tokens.codec_language_id.values())

    def write(self, text: str, codes: Codes, streaming: bool, voice: int = 0) -> tuple[Codes, Codes] | None:
        """Rows `[L, 1 + G]` and targets `[L]`; `codes [LEAD + F, G]`. `None` if there are more tokens than frames.

        `voice` is the number of a preset; a negative one leaves a place for a speaker vector.
        """
        ids = self._encode(ROLE + text)
        script = QwenScript(
            role=[self._config.text.im_start_token_id, *ids[:ROLE_TOKENS]],
            text=ids[ROLE_TOKENS:],
            language=self._rng.choice((None, self._language)),
            preset=self._presets[voice] if voice >= 0 else CLONED,
            non_streaming=not streaming,
        )
        content, last, rest = self._builder.build(script)
        codes = codes if streaming else codes[LEAD:]
        if len(rest) > len(codes):
            return None
        spoken = np.concatenate([last[None], codes])
        beside = np.full(len(spoken), self._config.text.tts_pad_token_id)
        beside[: len(rest)] = rest
        rows = np.concatenate([content[:, :-1], np.column_stack([beside, spoken])])
        targets = np.full(len(rows), IGNORED)
        targets[len(content) :] = [*codes[:, 0], self._config.tokens.codec_eos_token_id]
        return rows, targets

    def _encode(self, text: str) -> list[int]:
        if self._rng.random() < 0.5:
            return self._exact(text)
        head = self._exact(ROLE)
        loose: list[int] = self._loose.encode(text[len(ROLE) :]).ids
        return head + loose


class Lines:
    """All rows, concatenated on the device, and the start of each prompt."""

    def __init__(self, groups: int, positions: int, width: int, device: torch.device) -> None:
        """`width` of a speaker vector."""
        self._speakers = torch.zeros(
            1 + positions // 64, width, dtype=torch.float16, device=device
        )  # the first is none
        self._heard = 1
        self._voices = torch.zeros(positions, dtype=torch.int32, device=device)  # at the start of each prompt
        self._rows = torch.zeros(positions, 1 + groups, dtype=torch.int16, device=device)
        self._targets = torch.zeros(positions, dtype=torch.int16, device=device)
        self._used = 0
        self._starts: list[int] = []
        self._lengths: list[int] = []

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def positions(self) -> int:
        return self._used

    def add(self, rows: Codes, targets: Codes, lengths: Codes, speakers: NDArray[np.float16]) -> None:
        """Appends prompts, already concatenated, and the speaker vector of each, zeros for a preset."""
        total, device = len(targets), self._rows.device
        cloned = np.flatnonzero(speakers.any(1))
        if self._used + total > len(self._targets) or self._heard + len(cloned) > len(self._speakers):
            return
        stretch = slice(self._used, self._used + total)
        self._rows[stretch] = torch.from_numpy(rows).to(device)
        self._targets[stretch] = torch.from_numpy(targets).to(device)
        starts = self._used + np.cumsum(lengths) - lengths
        numbers = torch.arange(self._heard, self._heard + len(cloned), dtype=torch.int32, device=device)
        self._voices[torch.from_numpy(starts[cloned]).to(device)] = numbers
        self._speakers[self._heard : self._heard + len(cloned)] = torch.from_numpy(speakers[cloned]).to(device)
        self._heard += len(cloned)
        self._starts += starts.tolist()
        self._lengths += lengths.tolist()
        self._used += total

    def batches(self, positions: int, rng: np.random.Generator) -> Iterator[Choice]:
        """Yields every prompt once, in batches of similar length and about `positions` positions.

        All batches of a length have one size: the last one is filled up with repeated prompts.
        """
        starts, lengths = np.array(self._starts), np.array(self._lengths)
        steps = np.searchsorted(LADDER, lengths)
        plan: list[Choice] = []
        for step, longest in enumerate(LADDER):
            rows = rng.permutation(np.flatnonzero(steps == step))
            size = max(1, positions // longest)
            if len(rows):
                rows = np.concatenate([rows, rng.choice(rows, -len(rows) % size)])
            plan += [Choice(longest, starts[some], lengths[some]) for some in rows.reshape(-1, size)]
        for index in rng.permutation(len(plan)):
            yield plan[index]

    def read(self, starts: Tensor, lengths: Tensor, longest: int) -> Batch:
        """Reads the prompts that begin at `starts [B]`."""
        column = torch.arange(longest + 1, device=starts.device)
        at, there = (starts[:, None] + column).clamp(max=len(self._targets) - 1), column < lengths[:, None]
        rows = torch.where(there[..., None], self._rows[at].long(), -1)
        rows[..., 0].clamp_(min=0)
        targets = torch.where(there, self._targets[at].long(), IGNORED)
        speakers = self._speakers[self._voices[starts].long()].float()
        return Batch(rows[:, :-1], targets[:, :-1], rows[:, 1:, 1:].clamp(min=0), speakers)
