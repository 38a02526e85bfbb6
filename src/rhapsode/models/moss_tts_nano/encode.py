"""The encode stage: encodes references to codes, and turns drafts into prompts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rhapsode.audio.sinc import resample_sinc
from rhapsode.errors import BadAudio, InvalidRequest
from rhapsode.models.base import StageContext, Traits
from rhapsode.models.moss_tts_nano import parts
from rhapsode.models.moss_tts_nano.config import read
from rhapsode.models.moss_tts_nano.prepare import MossDraft, read_tokenizer
from rhapsode.models.moss_tts_nano.prompt import Ids, MossPrompt, MossPromptBuilder, Script
from rhapsode.types import Clip
from rhapsode.voices.cache import Remembered


class MossEncode:
    """Turns drafts into prompts, in the order they come."""

    def __init__(self, context: StageContext) -> None:
        config = read(context.config)
        self._builder = MossPromptBuilder(config, read_tokenizer(context, config))
        self._pad = config.tokens.audio_pad_token_id
        self._encoder = parts.encoder(context)
        self._codec = self._encoder.config
        self._references = context.references

    def __call__(self, drafts: Sequence[MossDraft]) -> list[MossPrompt]:
        return [self._finish(draft) for draft in drafts]

    def traits(self) -> Traits:
        return Traits(is_quick=self.is_quick)

    def is_quick(self, draft: MossDraft) -> bool:
        return draft.reference is None and draft.continued is None

    def _finish(self, draft: MossDraft) -> MossPrompt:
        options = draft.options
        script = Script(
            draft.text or (),
            reference=self._encoded(draft.reference, draft.books),
            continued=self._encoded(draft.continued, draft.books),
        )
        rows = self._builder.build_context(script) if draft.text is None else self._builder.build(script)
        return MossPrompt(
            max_frames=draft.max_frames,
            length=len(rows) - 1,
            content=rows[:-1],
            last=rows[-1],
            heard=script.continued,
            books=draft.books,
            ending=(options.text_temperature, options.text_top_k, options.text_top_p),
            feed=draft.feed,
            following=draft.following,
            new_segment=draft.silence_s is not None,
            silence_s=draft.silence_s or 0.0,
        )

    def _encoded(self, clip: Clip | None, books: int) -> Ids | None:
        """Returns the codes `[frames, codebooks]` of a recording; codebooks from number `books` on hold the pad id."""
        if clip is None:
            return None
        if clip.channels not in (1, self._codec.number_channels):
            raise InvalidRequest(f"a reference is mono or stereo, not {clip.channels} channels.", param="ref_audio")
        # The cache key is the recording before resampling, so a cache hit saves that work, too.
        name = f"codes of {clip.channels} channels at {clip.sample_rate} Hz"
        codes = Remembered(name, lambda samples: self._codes(samples, clip.sample_rate), self._references)(clip.samples)
        if not len(codes):
            least_ms = 1000 * self._codec.hop / self._codec.sampling_rate
            raise BadAudio(f"the reference is too short: it must have at least {least_ms:g} ms.", param="ref_audio")
        codes = codes.copy()
        codes[:, books:] = self._pad
        return codes

    def _codes(self, samples: NDArray[np.float32], rate: int) -> Ids:
        resampled = resample_sinc(samples.astype(np.float32, copy=False), rate, self._codec.sampling_rate)
        both = np.broadcast_to(resampled, (self._codec.number_channels, resampled.shape[1]))
        return self._encoder.encode(np.ascontiguousarray(both))
