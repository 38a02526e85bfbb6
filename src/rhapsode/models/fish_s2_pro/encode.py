"""The encode stage: references to codes, and drafts to prompts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rhapsode.audio.sinc import resample_sinc
from rhapsode.errors import InvalidRequest, TextTooLong
from rhapsode.models.base import StageContext, Traits
from rhapsode.models.fish_s2_pro import parts, tokenizer
from rhapsode.models.fish_s2_pro.config import read
from rhapsode.models.fish_s2_pro.prepare import FishDraft
from rhapsode.models.fish_s2_pro.prompt import Codes, FishPrompt, Segments
from rhapsode.models.parts import checkpoint_of
from rhapsode.types import Clip
from rhapsode.voices.cache import content_key

ROOM = 2048
"""Positions that upstream keeps free after a prompt."""


class FishEncode:
    """Turns drafts into prompts, in the order they come."""

    def __init__(self, context: StageContext) -> None:
        config = read(context.config)
        self._books = config.books
        self._most = config.slow.max_seq_len
        tokens = tokenizer.read_tokens(checkpoint_of(context), config)
        self._segments = Segments(lambda text: [], tokens, config.books)  # no text is left to tokenise
        self._encoder = parts.encoder(context)
        self._sample_rate = context.spec.sample_rate
        self._cache = context.references

    def __call__(self, drafts: Sequence[FishDraft]) -> list[FishPrompt]:
        return [self._finish(draft) for draft in drafts]

    def traits(self) -> Traits:
        return Traits(is_quick=self.is_quick)

    def is_quick(self, draft: FishDraft) -> bool:
        return not draft.references

    def _finish(self, draft: FishDraft) -> FishPrompt:
        frames = [self._segments.frames(self._codes(clip)) for clip in draft.references]
        ids = self._segments.columns
        columns = np.concatenate([ids(draft.before), *frames, ids(draft.after)])
        self._check_length(len(columns))
        spoken = len(columns) - (1 if draft.max_frames else 0)
        frames_left = min(draft.max_frames, self._most - len(columns))
        positions = len(columns) + frames_left + draft.later_positions if draft.later_positions else 0  # of all prompts
        return FishPrompt(
            max_frames=frames_left,
            length=spoken,
            content=columns[:spoken],
            last=columns[spoken:],
            feed=draft.feed,
            following=draft.following,
            continues=draft.continues,
            new_segment=draft.new_segment,
            positions=min(positions, self._most),
            afresh=self._finish(draft.afresh) if draft.afresh else None,
        )

    def _codes(self, clip: Clip) -> Codes:
        """Returns the codes of a reference, `[F, books]`; equal recordings are encoded once."""

        def make() -> tuple[Codes, int]:
            mixed = clip.samples.mean(axis=0, dtype=np.float32, keepdims=True)
            codes = self._encoder.encode(resample_sinc(mixed, clip.sample_rate, self._sample_rate)[0])
            return codes, codes.nbytes

        key = content_key("fish-s2-pro", f"{clip.samples.shape} {clip.sample_rate}", clip.samples.tobytes())
        codes = self._cache.get_or_make(key, make)
        if codes.shape[1] != self._books:
            raise InvalidRequest(f"the codec makes {codes.shape[1]} codes a frame, and the model takes {self._books}.")
        return codes

    def _check_length(self, positions: int) -> None:
        most = max(self._most - ROOM, self._most // 2)
        if positions > most:
            raise TextTooLong(
                f"text and references need {positions} positions; this model takes at most {most}.", param="input"
            )
