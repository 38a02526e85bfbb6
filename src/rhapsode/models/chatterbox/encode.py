"""The encode stage: encodes voices, and turns drafts into prompts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from rhapsode.errors import TextTooLong
from rhapsode.models.base import StageContext, Traits
from rhapsode.models.chatterbox.config import read
from rhapsode.models.chatterbox.prepare import ChatterboxDraft, RequestVoice
from rhapsode.models.chatterbox.sound import references
from rhapsode.models.chatterbox.spec import ChatterboxSettings
from rhapsode.models.chatterbox.t3 import parts
from rhapsode.models.chatterbox.t3.prompt import MOST_TOKENS, T3Layout, T3Prompt
from rhapsode.models.chatterbox.voice import Floats, VoiceConditioning
from rhapsode.models.parts import checkpoint_of
from rhapsode.voices.cache import content_key

PER_TEXT_TOKEN, MORE = 20, 100
"""Speech tokens that a token of text takes at most, and that any text may take: beyond them a model has run away."""


class ChatterboxEncode:
    """Turns drafts into prompts, in the order they come. Only the first of a request needs its voice encoded."""

    def __init__(self, context: StageContext) -> None:
        folder = checkpoint_of(context)
        settings: ChatterboxSettings = context.settings
        self._config = config = read(context.config, folder, settings.t3)
        self._conditioner = parts.conditioner(config, context)
        self._references = references(config, context)
        self._layout = T3Layout(config.t3)
        self._device = torch.device(context.device)
        self._cache = context.references

    def __call__(self, drafts: Sequence[ChatterboxDraft]) -> list[T3Prompt]:
        return [self._finish(draft) for draft in drafts]

    def traits(self) -> Traits:
        return Traits(is_quick=self.is_quick)

    def is_quick(self, draft: ChatterboxDraft) -> bool:
        """Whether the voice is encoded already: for an earlier piece of the text."""
        return draft.voice.rows is not None

    def _finish(self, draft: ChatterboxDraft) -> T3Prompt:
        self._encode(draft.voice)
        voice, voice_rows = draft.voice.found, draft.voice.rows
        assert voice is not None
        assert voice_rows is not None
        if draft.ids is None:
            rows, most = self._layout.context(voice_rows, voice.cond_tokens), 0
        else:
            rows = self._layout.rows(voice_rows, voice.cond_tokens, draft.ids)
            room = self._layout.room(rows)
            if room < 1:
                raise TextTooLong(
                    f"a sentence of {len(draft.ids)} tokens leaves no room for its speech.", param="input"
                )
            most = min(MOST_TOKENS, MORE + PER_TEXT_TOKEN * len(draft.ids), room)
        return T3Prompt(
            max_frames=most,
            length=len(rows),
            content=rows,
            voice_rows=voice_rows,
            voice=voice,
            cfg_weight=draft.cfg_weight,
            feed=draft.feed,
            following=draft.following,
            new_segment=not draft.is_first,
        )

    def _encode(self, voice: RequestVoice) -> None:
        """Fills in what depends on the voice alone."""
        if voice.rows is not None:
            return
        found = voice.preset if voice.reference is None else self._references.voice(voice.reference)
        assert found is not None
        voice.rows = self._rows(found, voice.exaggeration)
        voice.found = found.shortened(voice.reference_s)

    def _rows(self, voice: VoiceConditioning, exaggeration: float) -> Floats:
        """Returns the rows that a voice has in a prompt."""

        def make() -> tuple[Floats, int]:
            speaker, speech = (
                torch.from_numpy(one)[None].to(self._device) for one in (voice.speaker_emb, voice.cond_tokens)
            )
            with torch.inference_mode():
                made = self._conditioner(speaker, speech, torch.tensor([exaggeration], device=self._device))
            rows: Floats = made[0].float().cpu().numpy()
            return rows, rows.nbytes

        where = np.float32(exaggeration).tobytes()
        return self._cache.get_or_make(
            content_key("chatterbox", where, voice.speaker_emb.tobytes(), voice.cond_tokens.tobytes()), make
        )
