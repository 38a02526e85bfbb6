"""The encode stage: references to codes, and drafts to prompts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from rhapsode.errors import CheckpointError
from rhapsode.models.base import StageContext, Traits
from rhapsode.models.higgs import tokenizer
from rhapsode.models.higgs.config import HiggsConfig, read_v2, read_v3
from rhapsode.models.higgs.draft import HiggsDraft, Piece
from rhapsode.models.higgs.net import pattern_of
from rhapsode.models.higgs.prompt import CodeRows, Columns, HiggsPrompt, audio_columns, text_columns
from rhapsode.models.higgs.vocode import CodecFiles
from rhapsode.models.parts import checkpoint_of
from rhapsode.types import Clip
from rhapsode.voices.cache import content_key

AUDIO, DELAY = "<|AUDIO_OUT|>", "<|reserved_special_token_6|>"
"""Tokens at the audio positions of v2's prompts: for the rows of a recording, and for the rows that the delay adds."""
NO_TOKEN = -100
"""The token at the audio positions of v3's prompts."""


class HiggsEncode:
    """Turns drafts into prompts. The references of all drafts are encoded together."""

    shortest_s = 0.0
    """A reference that is shorter than this is padded with silence."""

    def __init__(self, config: HiggsConfig, context: StageContext) -> None:
        self._books = config.books
        self._pattern = pattern_of(config)
        self._encoder = CodecFiles.of(config, context).encoder(context, self.shortest_s)
        self._cache = context.references

    def __call__(self, drafts: Sequence[HiggsDraft]) -> list[HiggsPrompt]:
        clips = {self._key(clip): clip for draft in drafts for clip in _clips(draft)}
        unknown = {key: clip for key, clip in clips.items() if key not in self._cache}
        made = dict(zip(unknown, self._encoder(list(unknown.values())), strict=True))
        codes = {key: self._codes(key, clip, made) for key, clip in clips.items()}
        return [self._finish(draft, codes) for draft in drafts]

    def traits(self) -> Traits:
        return Traits(is_quick=self.is_quick)

    def is_quick(self, draft: HiggsDraft) -> bool:
        return next(_clips(draft), None) is None

    def tokens(self, rows: int) -> list[int]:
        """Returns the tokens at the audio positions of a recording with `rows` rows."""
        return [NO_TOKEN] * rows

    def split(self, columns: Columns) -> tuple[Columns, Columns]:
        """Splits the columns of a prompt: those to prefill, and the input of the first step."""
        return columns[:-1], columns[-1:]

    def _finish(self, draft: HiggsDraft, codes: dict[bytes, CodeRows]) -> HiggsPrompt:
        columns = np.concatenate([self._columns(piece, codes) for piece in draft.pieces])
        content, last = self.split(columns) if draft.max_frames else (columns, columns[:0])
        silent = self._pattern.silent_steps
        spoken = len(columns) + silent + draft.max_frames
        return HiggsPrompt(
            max_frames=draft.max_frames,
            silent_steps=silent,
            length=len(content),
            content=content,
            last=last,
            repetition=draft.repetition,
            feed=draft.feed,
            following=draft.following,
            continues=draft.continues,
            new_segment=draft.new_segment,
            positions=spoken + draft.later_positions if draft.later_positions else 0,
            afresh=self._finish(draft.afresh, codes) if draft.afresh else None,
        )

    def _columns(self, piece: Piece, codes: dict[bytes, CodeRows]) -> Columns:
        if isinstance(piece, list):
            return text_columns(piece, self._books)
        if isinstance(piece, Clip):
            piece = self._pattern.delayed(codes[self._key(piece)])
        return audio_columns(self.tokens(len(piece)), piece)

    def _codes(self, key: bytes, clip: Clip, made: dict[bytes, CodeRows]) -> CodeRows:
        """Returns the codes of a reference, `[F, books]`; equal recordings are encoded once."""

        def make() -> tuple[CodeRows, int]:
            found = made[key] if key in made else self._encoder([clip])[0]
            return found, found.nbytes

        return self._cache.get_or_make(key, make)

    def _key(self, clip: Clip) -> bytes:
        return content_key(f"higgs {clip.samples.shape} {clip.sample_rate}", clip.samples.tobytes())


def _clips(draft: HiggsDraft) -> Iterator[Clip]:
    yield from (piece for piece in draft.pieces if isinstance(piece, Clip))
    if draft.afresh is not None:
        yield from _clips(draft.afresh)


class HiggsV2Encode(HiggsEncode):
    def __init__(self, context: StageContext) -> None:
        config = read_v2(context.config)
        super().__init__(config, context)
        tokens = tokenizer.ControlTokens(checkpoint_of(context), config.body.vocab_size)
        self._audio, self._delay = tokens[AUDIO], tokens[DELAY]
        if config.audio_token_id not in (None, self._audio):
            raise CheckpointError(f"'{AUDIO}' is token {self._audio}, and {config.audio_token_id} in config.json.")

    def tokens(self, rows: int) -> list[int]:
        delayed = min(rows, self._pattern.silent_steps)
        return [self._audio] * (rows - delayed) + [self._delay] * delayed

    def split(self, columns: Columns) -> tuple[Columns, Columns]:
        """Prefills all columns: the first row of speech is always `begin` in every codebook, so no step draws it."""
        first = np.full((1, self._books), self._pattern.begin, np.int64)
        return columns, audio_columns([self._audio], first)


class HiggsV3Encode(HiggsEncode):
    shortest_s = 1.0  # as the model's servers do

    def __init__(self, context: StageContext) -> None:
        super().__init__(read_v3(context.config), context)
