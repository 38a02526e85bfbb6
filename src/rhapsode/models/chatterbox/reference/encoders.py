"""The reference encoders together: what the language model and the flow need to know of a recording."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.audio.resample import mono
from rhapsode.audio.sinc import resample_sinc
from rhapsode.errors import BadAudio
from rhapsode.models.chatterbox.flow.sizes import RATE, TOKEN_HZ
from rhapsode.models.chatterbox.reference.loudness import gain_to
from rhapsode.models.chatterbox.reference.speech_tokenizer import FRAMES_PER_TOKEN, SpeechTokenizer
from rhapsode.models.chatterbox.reference.voice_encoder import VoiceEncoder, speech_span, voice_mel
from rhapsode.models.chatterbox.voice import VoiceConditioning
from rhapsode.nn.campplus import CamPlus
from rhapsode.nn.kaldi import kaldi_fbank
from rhapsode.nn.mel import MelConfig, log_mel
from rhapsode.nn.whisper_mel import whisper_mel
from rhapsode.types import Clip
from rhapsode.voices.cache import ReferenceCache, content_key

HIGH, LOW = 24_000, 16_000
"""Sample rates: of the flow's mel frames, and of what the networks read."""
PROMPT_S = 10.0
"""Seconds of a recording that the flow continues."""
PROMPT_MEL = MelConfig(sample_rate=HIGH, n_fft=1920, hop=480, bands=80, high_hz=8_000)


@dataclass(frozen=True)
class ReferenceRules:
    """What the variants of the model do differently with a recording."""

    heard_s: float
    """Seconds of the recording that the language model hears."""
    least_s: float
    loudness: float | None = None
    """In LUFS; None: recordings are as loud as they are."""

    @property
    def most_tokens(self) -> int:
        """Tokens of the part that the language model hears."""
        return round(TOKEN_HZ * self.heard_s)


ORIGINAL = ReferenceRules(heard_s=6.0, least_s=0.5)
"""The original and the multilingual models. Upstream has no minimum."""
TURBO = ReferenceRules(heard_s=15.0, least_s=5.0, loudness=-27.0)
"""Turbo and Nano."""


class ReferenceEncoders:
    """Three networks and their spectrograms. The networks run in full precision on one device."""

    def __init__(
        self,
        tokenizer: SpeechTokenizer,
        speaker: CamPlus,
        voice: VoiceEncoder,
        rules: ReferenceRules,
        cache: ReferenceCache,
    ) -> None:
        self._tokenizer, self._speaker, self._voice = tokenizer, speaker, voice
        self._rules, self._cache = rules, cache
        self._device = voice.proj.weight.device

    def voice(self, clip: Clip, *, cut: bool = True) -> VoiceConditioning:
        """Returns the voice of a recording.

        Unless `cut`, there may be a mel frame more than the tokens have. Upstream keeps it, and so loses the first 20
        ms of speech.
        """
        if clip.duration_s < self._rules.least_s:
            raise BadAudio(
                f"the reference is {clip.duration_s:.1f} s long; this model needs at least {self._rules.least_s:g} s.",
                param="ref_audio",
            )

        def make() -> tuple[VoiceConditioning, int]:
            made = self._make(clip, cut)
            return made, made.nbytes

        what = f"{self._rules} {cut} {clip.samples.shape} {clip.sample_rate}"
        return self._cache.get_or_make(content_key("chatterbox", what, clip.samples.tobytes()), make)

    @torch.inference_mode()
    def _make(self, clip: Clip, cut: bool) -> VoiceConditioning:
        high = self.high(clip)
        low = mono(Clip(high[None], HIGH), LOW)
        prompt = high[: round(PROMPT_S * HIGH)]
        prompt_low = torch.from_numpy(resample_sinc(prompt[None], HIGH, LOW)[0])
        mel = log_mel(torch.from_numpy(prompt)[None], PROMPT_MEL)[0].numpy()
        tokens = self.tokens(prompt_low)[: len(mel) // RATE]
        return VoiceConditioning(
            speaker_emb=self.speaker_emb(torch.from_numpy(low)),
            cond_tokens=self.tokens(torch.from_numpy(low[: round(self._rules.heard_s * LOW)]), self._rules.most_tokens),
            prompt_token=tokens,
            prompt_feat=mel[: RATE * len(tokens)] if cut else mel,
            embedding=self.embedding(prompt_low),
        )

    def high(self, clip: Clip) -> NDArray[np.float32]:
        """Returns the recording at the flow's rate, as loud as the model wants it, `[N]`."""
        samples = mono(clip, HIGH)
        if self._rules.loudness is not None:
            samples = samples * np.float32(gain_to(samples, HIGH, self._rules.loudness))
        return samples

    def tokens(self, low: Tensor, most: int | None = None) -> NDArray[np.int64]:
        """Returns the speech tokens of 16 kHz samples `[N]`, `most` of them."""
        mel = whisper_mel(low)
        if most is not None:
            mel = mel[:, : most * FRAMES_PER_TOKEN]
        return self._tokenizer(mel[None].to(self._device))[0].cpu().numpy()

    def embedding(self, low: Tensor) -> NDArray[np.float32]:
        """Returns the speaker vector of 16 kHz samples `[N]`, for the flow."""
        return self._speaker(kaldi_fbank(low)[None].to(self._device))[0].cpu().numpy()

    def speaker_emb(self, low: Tensor) -> NDArray[np.float32]:
        """Returns the vector of the voice in 16 kHz samples `[N]`, for the language model."""
        mel = voice_mel(low[speech_span(low)])
        return self._voice(mel.to(self._device)).cpu().numpy()
