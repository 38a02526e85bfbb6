"""The encode stage: encodes references to latent patches, and turns drafts into prompts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rhapsode.audio.resample import mono
from rhapsode.errors import BadAudio
from rhapsode.models.base import StageContext, Traits
from rhapsode.models.voxcpm2 import parts
from rhapsode.models.voxcpm2.config import read
from rhapsode.models.voxcpm2.prepare import VoxDraft
from rhapsode.models.voxcpm2.prompt import Patches, VoxPrompt, VoxScript, build
from rhapsode.types import Clip
from rhapsode.voices.cache import Remembered


class VoxEncode:
    """Turns drafts into prompts, in the order they come."""

    def __init__(self, context: StageContext) -> None:
        self._patch_shape = read(context.config).patch_shape
        encoder = parts.encoder(context)
        self._sample_rate = encoder.config.sample_rate
        self._patch_samples = self._patch_shape[0] * encoder.config.encoder_hop
        self._latents = Remembered("latents", encoder.encode, context.references)

    def __call__(self, drafts: Sequence[VoxDraft]) -> list[VoxPrompt]:
        return [self._finish(draft) for draft in drafts]

    def traits(self) -> Traits:
        return Traits(is_quick=self.is_quick)

    def is_quick(self, draft: VoxDraft) -> bool:
        return draft.reference is None and draft.continued is None

    def _finish(self, draft: VoxDraft) -> VoxPrompt:
        script = VoxScript(
            draft.text,
            reference=self._patches(draft.reference, at_end=True) if draft.reference else None,
            continued=self._patches(draft.continued, at_end=False) if draft.continued else None,
        )
        content, heard = build(script, self._patch_shape)
        options = draft.options
        return VoxPrompt(
            max_frames=draft.max_frames,
            wanted_frames=options.max_len,
            length=len(content) - 1,
            content=content[:-1],
            last=content[-1],
            heard=heard,
            cfg_value=options.cfg_value,
            timesteps=options.inference_timesteps,
            min_len=options.min_len,
        )

    def _patches(self, clip: Clip, at_end: bool) -> Patches:
        """Returns whole patches, padded with silence: at the end for a voice, at the start for continued speech."""
        samples = mono(clip, self._sample_rate)
        if not samples.size:
            raise BadAudio("the reference is empty.", param="ref_audio")
        missing = -len(samples) % self._patch_samples
        padded: NDArray[np.float32] = np.pad(samples, (0, missing) if at_end else (missing, 0))
        return self._latents(padded).reshape(-1, *self._patch_shape)
