"""The encode stage: computes speaker embeddings and codes of references, and turns drafts into prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rhapsode.audio.resample import mono
from rhapsode.errors import InvalidRequest
from rhapsode.models.base import StageContext, Traits
from rhapsode.models.qwen3_tts.config import read
from rhapsode.models.qwen3_tts.prepare import QwenDraft
from rhapsode.models.qwen3_tts.prompt import FIRST_CODE, PromptBuilder, QwenPrompt
from rhapsode.types import Clip
from rhapsode.voices.cache import Remembered


def interpolate(first: NDArray[np.float32], second: NDArray[np.float32], weight: float) -> NDArray[np.float32]:
    """Returns an embedding between two: the first at weight 0, the second at 1."""
    if first.shape != second.shape:
        raise InvalidRequest(f"voices of {first.size} and {second.size} numbers cannot be mixed.", param="voice")
    if not 0 <= weight <= 1:
        raise InvalidRequest("the weight of a mix of voices is between 0 and 1.", param="voice")
    return ((1 - weight) * first + weight * second).astype(np.float32)


class QwenEncode:
    """Turns drafts into prompts, in the order they come."""

    def __init__(self, context: StageContext) -> None:
        config = read(context.config, context.checkpoint)
        self._builder = PromptBuilder(config)
        self._sample_rate = context.spec.sample_rate
        if config.clones:
            from rhapsode.models.qwen3_tts import parts

            self._speaker = Remembered("speaker", parts.embedder(context), context.references)
            self._codes = Remembered("codes", parts.encoder(context), context.references)

    def __call__(self, drafts: Sequence[QwenDraft]) -> list[QwenPrompt]:
        return [self._finish(draft) for draft in drafts]

    def traits(self) -> Traits:
        return Traits(is_quick=self.is_quick, embed=self.embed)

    def is_quick(self, draft: QwenDraft) -> bool:
        return draft.reference is None

    def embed(self, clip: Clip) -> tuple[float, ...]:
        return tuple(self._speaker(mono(clip, self._sample_rate)).tolist())

    def _finish(self, draft: QwenDraft) -> QwenPrompt:
        script = draft.script
        if draft.reference is not None:
            samples = mono(draft.reference, self._sample_rate)
            if script.speaker is None:
                script = replace(script, speaker=self._speaker(samples))
            if draft.in_context:
                script = replace(script, reference_codes=self._codes(samples))
        if script.open and script.beside() > len(script.text):
            raise InvalidRequest(
                f"with this reference the first {script.beside()} tokens of the text must be there from the start: "
                "begin with more text, or set 'x_vector_only_mode'.",
                param="input",
            )
        if draft.feed is not None:
            draft.feed.use(script.beside())
        content, last, text = self._builder.build(script)
        return QwenPrompt(
            max_frames=draft.max_frames,
            length=len(content),
            content=content,
            brief=(FIRST_CODE + 1, self._builder.plain(script, len(content))),
            feed=draft.feed,
            following=draft.following,
            last=last,
            text=text,
            speaker=script.speaker,
            reference_codes=script.reference_codes,
            subtalker=draft.subtalker,
        )
