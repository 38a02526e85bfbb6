"""The encode stage: encodes references, and turns drafts into prompts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from rhapsode.models.base import StageContext, Traits
from rhapsode.models.cosyvoice3.config import CosyConfig, read
from rhapsode.models.cosyvoice3.prepare import CosyDraft
from rhapsode.models.cosyvoice3.prompt import (
    MOST_PER_TEXT_TOKEN,
    CosyLayout,
    CosyPrompt,
    CosyScript,
    CosyVoice,
    whole_prompt,
)
from rhapsode.models.cosyvoice3.reference import CosyReferenceEncoder
from rhapsode.models.cosyvoice3.spec import CosySettings
from rhapsode.models.cosyvoice3.text import CosyText
from rhapsode.models.cosyvoice3.turns import Turns
from rhapsode.models.parts import checkpoint_of
from rhapsode.types import Clip

EXPECTED_PER_TEXT_TOKEN = 8
"""Speech tokens that a token of text usually takes."""
OPEN_EXPECTED_S = 10.0
"""Seconds of speech that are expected of a text whose length is unknown."""


class CosyEncode:
    """Turns drafts into prompts. Later prompts of a request are already made and pass through unchanged."""

    def __init__(self, context: StageContext) -> None:
        folder = checkpoint_of(context)
        settings: CosySettings = context.settings
        self._config = read(context.config, folder)
        self._layout = CosyLayout(self._config)
        self._references = CosyReferenceEncoder(folder, self._config, context.references)
        self._first_tokens = settings.first_tokens

    def __call__(self, draft: CosyDraft | CosyPrompt) -> CosyPrompt:
        if isinstance(draft, CosyPrompt):
            return draft
        script, text = self._script(draft), draft.text
        longest = script.counted + max(len(segment.tokens) for segment in text.segments)
        expected = EXPECTED_PER_TEXT_TOKEN * longest if text.closed else self._config.tokens_of(OPEN_EXPECTED_S)
        if draft.in_turns:
            prompt = Turns(self._layout, script, text, self._config.speech.mix_ratio).opening()
            return replace(prompt, segment_frames=script.most_frames, expected_frames=expected)
        most = min(MOST_PER_TEXT_TOKEN * longest, script.most_frames)
        return replace(self._segment(script, text), segment_frames=most, expected_frames=expected)

    def traits(self) -> Traits:
        return Traits(is_quick=self.is_quick, embed=self.embed)

    def is_quick(self, draft: CosyDraft | CosyPrompt) -> bool:
        return isinstance(draft, CosyPrompt)

    def embed(self, clip: Clip) -> tuple[float, ...]:
        return tuple(self._references.embedding(clip).tolist())

    def _script(self, draft: CosyDraft) -> CosyScript:
        voice, speech = self._voice(draft), np.zeros(0, np.int64)
        if draft.in_prompt:
            speech = draft.preset.speech if draft.preset is not None else voice.tokens
        trimmed = with_short_first_chunk(voice, self._config, self._first_tokens)
        return CosyScript(
            head=draft.head,
            transcript=draft.transcript,
            speech=speech,
            voice=trimmed,
            most_frames=draft.most_frames,
            counted=draft.counted,
            enforced=draft.enforced,
        )

    def _voice(self, draft: CosyDraft) -> CosyVoice:
        if draft.preset is not None:
            return draft.preset.voice
        if draft.reference is not None:
            return self._references.voice(draft.reference, draft.tokens, draft.embedding)
        assert draft.embedding is not None
        nothing = np.zeros((0, self._config.mel.num_mels), np.float32)
        return CosyVoice(np.zeros(0, np.int64), nothing, np.asarray(draft.embedding, np.float32))

    def _segment(self, script: CosyScript, text: CosyText) -> CosyPrompt:
        """Returns the prompt of the text's next segment; prompts of later segments are made when they are needed."""
        prompt = whole_prompt(self._layout, script, text.segments.popleft().tokens)
        return replace(prompt, following=self._following(script, text)) if _has_words(text) else prompt

    def _following(self, script: CosyScript, text: CosyText) -> Callable[[], Any]:
        return lambda: replace(self._segment(script, text), new_segment=True)


def _has_words(text: CosyText) -> bool:
    return bool(text.segments and text.segments[0].tokens)


def with_short_first_chunk(voice: CosyVoice, config: CosyConfig, first_tokens: int) -> CosyVoice:
    """Leaves out the first tokens of a reference, so that its last chunk lacks only `first_tokens` to be full.

    The flow works in chunks counted from the start of the reference. The tokens that its last chunk lacks are the first
    that are heard: the fewer they are, the lower the latency. Short references are not cut.
    """
    chunk, rate = config.rates.chunk_size, config.rates.token_mel_ratio
    if not 0 < first_tokens < chunk or len(voice.tokens) < 3 * chunk:
        return voice
    cut = (len(voice.tokens) + first_tokens) % chunk
    return replace(voice, tokens=voice.tokens[cut:], mel=voice.mel[cut * rate :])
