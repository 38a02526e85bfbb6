"""The reference front end: speech tokens, speaker vector and mel of a recording."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rhapsode.audio.sinc import resample_sinc
from rhapsode.errors import CheckpointError, InvalidRequest, MissingDependency
from rhapsode.extras import how_to_install
from rhapsode.models.cosyvoice3 import frontend
from rhapsode.models.cosyvoice3.config import CosyConfig
from rhapsode.models.cosyvoice3.presets import check_tokens
from rhapsode.models.cosyvoice3.prompt import CosyVoice, Ids
from rhapsode.models.cosyvoice3.spec import ENCODERS
from rhapsode.nn.kaldi import kaldi_fbank
from rhapsode.nn.whisper_mel import whisper_mel
from rhapsode.types import Clip
from rhapsode.voices.cache import ReferenceCache, content_key

SPEECH_TOKENIZER, SPEAKER = ENCODERS["reference_tokens"], ENCODERS["speaker_embedding"]
MOST_S = 30.0
"""The speech tokenizer was made for recordings of up to this length."""
MOST_THREADS = 4
"""Threads of one network while it encodes a reference."""


class OnnxModel:
    """A network of the checkpoint that onnxruntime runs. The constructor loads it if the file and the package exist."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._session: Any = _load(file) if file.is_file() else None

    def __call__(self, *inputs: NDArray[Any]) -> NDArray[Any]:
        if self._session is None:
            raise MissingDependency(f"{self.file.name} needs onnxruntime: {how_to_install('cosyvoice3')}")
        names = [one.name for one in self._session.get_inputs()]
        if len(names) != len(inputs):
            raise CheckpointError(f"{self.file} takes {len(names)} inputs; {len(inputs)} were expected.")
        output: NDArray[Any] = self._session.run(None, dict(zip(names, inputs, strict=True)))[0]
        return output


def _load(file: Path) -> Any:
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = min(MOST_THREADS, os.cpu_count() or 1)
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # idle threads must free the cores
    try:
        return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the package raises its own classes, which its type hints do not declare
        raise CheckpointError(f"{file} is not a readable ONNX model: {error}") from None


class CosyReferenceEncoder:
    """Turns recordings into voices. Results of the two ONNX models may be given instead of computed."""

    def __init__(self, folder: Path, config: CosyConfig, cache: ReferenceCache) -> None:
        self._config = config
        self._cache = cache
        self._tokenizer = OnnxModel(folder / SPEECH_TOKENIZER)
        self._speaker = OnnxModel(folder / SPEAKER)

    def voice(
        self, clip: Clip, tokens: Sequence[int] | None = None, embedding: Sequence[float] | None = None
    ) -> CosyVoice:
        """Returns the voice of a recording, cut to the tokens for which there are mel frames, too."""
        if clip.duration_s > MOST_S:
            raise InvalidRequest(
                f"the reference is {clip.duration_s:.1f} s long; this model takes at most {MOST_S:.0f} s.",
                param="ref_audio",
            )
        if clip.samples.shape[1] * frontend.RATE < frontend.LEAST_SAMPLES * clip.sample_rate:
            raise InvalidRequest("the reference is empty or shorter than 0.1 s.", param="ref_audio")
        ids = self.tokens(clip) if tokens is None else self._given(tokens)
        vector = self.embedding(clip) if embedding is None else np.asarray(embedding, np.float32)
        mel, rate = self._mel(clip), self._config.rates.token_mel_ratio
        count = min(len(mel) // rate, len(ids))
        return CosyVoice(ids[:count], mel[: count * rate], vector)

    def tokens(self, clip: Clip) -> Ids:
        """Returns the speech tokens of a recording."""

        def make() -> NDArray[Any]:
            mel = whisper_mel(_at(clip, frontend.RATE))[None]
            return self._tokenizer(mel.numpy(), np.array([mel.shape[2]], np.int32)).reshape(-1).astype(np.int64)

        self._check(self._tokenizer, "option 'reference_tokens'")
        ids = self._remembered("tokens", clip, make)
        error = CheckpointError(f"{self._tokenizer.file} made a token that the model does not have.")
        check_tokens(ids, self._config.codes, error)
        return ids

    def embedding(self, clip: Clip) -> NDArray[np.float32]:
        """Returns the speaker vector of a recording."""

        def make() -> NDArray[Any]:
            fbank = kaldi_fbank(_at(clip, frontend.RATE))[None]
            return self._speaker(fbank.numpy()).reshape(-1).astype(np.float32)

        self._check(self._speaker, "'speaker_embedding'")
        vector = self._remembered("speaker", clip, make)
        if len(vector) != self._config.rates.spk_embed_dim:
            raise CheckpointError(
                f"{self._speaker.file} makes {len(vector)} numbers; the flow takes {self._config.rates.spk_embed_dim}."
            )
        return vector

    def _mel(self, clip: Clip) -> NDArray[np.float32]:
        config = self._config.mel
        return self._remembered(
            "mel", clip, lambda: frontend.prompt_mel(_at(clip, config.sampling_rate), config).numpy()
        )

    def _given(self, tokens: Sequence[int]) -> Ids:
        ids, codes = np.array(tokens, np.int64), self._config.codes
        error = InvalidRequest(f"reference tokens are from 0 to {codes - 1}.", param="reference_tokens")
        check_tokens(ids, codes, error)
        return ids

    def _check(self, model: OnnxModel, instead: str) -> None:
        if not model.file.is_file():
            raise InvalidRequest(
                f"this checkpoint has no {model.file.name} to encode a reference with: give {instead}.",
                param="ref_audio",
            )

    def _remembered(self, name: str, clip: Clip, make: Any) -> NDArray[Any]:
        def sized() -> tuple[NDArray[Any], int]:
            made = make()
            return made, made.nbytes

        where = f"{clip.samples.shape} {clip.sample_rate}"
        return self._cache.get_or_make(content_key("cosyvoice3", name, where, clip.samples.tobytes()), sized)


def _at(clip: Clip, rate: int) -> torch.Tensor:
    mixed = clip.samples.mean(axis=0, dtype=np.float32, keepdims=True)
    return torch.from_numpy(resample_sinc(mixed, clip.sample_rate, rate)[0])
