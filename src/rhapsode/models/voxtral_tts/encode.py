"""The encode stage: encodes references to codes, where a checkpoint has an encoder, and turns drafts into prompts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rhapsode.audio.resample import mono
from rhapsode.errors import BadAudio
from rhapsode.models.base import StageContext, Traits
from rhapsode.models.parts import checkpoint_of
from rhapsode.models.voxtral_tts.info import has_encoder
from rhapsode.models.voxtral_tts.prepare import VoxtralDraft
from rhapsode.models.voxtral_tts.prompt import Rows, VoxtralPrompt, reference_rows
from rhapsode.types import Clip
from rhapsode.voices.cache import Remembered


class VoxtralEncode:
    """Turns drafts into prompts, in the order they come."""

    def __init__(self, context: StageContext) -> None:
        folder = checkpoint_of(context)
        self._sample_rate = context.spec.sample_rate
        if has_encoder(folder):
            from rhapsode.models.voxtral_tts import parts

            self._codes = Remembered("codes", parts.encoder(context).encode, context.references)

    def __call__(self, drafts: Sequence[VoxtralDraft]) -> list[VoxtralPrompt]:
        return [self._finish(draft) for draft in drafts]

    def traits(self) -> Traits:
        return Traits(is_quick=self.is_quick)

    def is_quick(self, draft: VoxtralDraft) -> bool:
        return draft.reference is None

    def _finish(self, draft: VoxtralDraft) -> VoxtralPrompt:
        voice = draft.preset if draft.reference is None else self._reference(draft.reference)
        assert voice is not None
        before, after, last = draft.shell
        content = np.concatenate((before, voice, after))
        return VoxtralPrompt(
            max_frames=draft.max_frames,
            length=len(content),
            content=content,
            last=last,
            cfg_alpha=draft.options.cfg_alpha,
        )

    def _reference(self, clip: Clip) -> Rows:
        samples = mono(clip, self._sample_rate)
        if not samples.size:
            raise BadAudio("the reference is empty.", param="ref_audio")
        return reference_rows(self._codes(samples))
