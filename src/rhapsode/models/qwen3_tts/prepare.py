"""From a request to a draft: checked, tokenised, and all of it but the reference's sound decided."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rhapsode.errors import CheckpointError, InvalidRequest, TextTooLong, UnknownVoice, did_you_mean
from rhapsode.models.base import StageContext
from rhapsode.models.options import parse_options
from rhapsode.models.prompt import Following, Part
from rhapsode.models.qwen3_tts import tokenizer
from rhapsode.models.qwen3_tts.config import KINDS, QwenConfig, read
from rhapsode.models.qwen3_tts.feed import ROLE, ROLE_TOKENS, WordFeed
from rhapsode.models.qwen3_tts.prompt import Script
from rhapsode.models.qwen3_tts.spec import Qwen3Options
from rhapsode.types import Clip, SpeechRequest, Voice

LANGUAGES = {
    "zh": "chinese",
    "en": "english",
    "de": "german",
    "it": "italian",
    "pt": "portuguese",
    "es": "spanish",
    "ja": "japanese",
    "ko": "korean",
    "fr": "french",
    "ru": "russian",
}

FRAMES_PER_TOKEN, SPARE_FRAMES = 16, 128
"""More than any text needs: 1.28 s a token (speech takes about 0.3 s), and ten seconds for pauses and breath."""


@dataclass(frozen=True)
class Draft:
    """A prompt without its reference: the script so far, and what is still to be encoded."""

    script: Script
    max_frames: int
    subtalker: tuple[float, int, float]
    feed: WordFeed | None = None
    reference: Clip | None = None
    in_context: bool = False
    """The reference's codes go into the prompt, beside its transcript."""
    following: Callable[[], Any] | None = None
    """Names the rest of a text that is spoken in parts, as `Prompt.following` does."""


class Prepare:
    """Says what is wrong with a request before anything is computed for it."""

    def __init__(self, context: StageContext) -> None:
        if context.checkpoint is None:
            raise CheckpointError(f"{context.spec.name} needs a checkpoint: give its folder or its Hugging Face id.")
        self._spec = context.spec
        self._config = read(context.config, context.checkpoint)
        self._encode = tokenizer.read(context.checkpoint)
        self.voices = tuple(self._config.tokens.spk_id) if self._config.kind == "custom_voice" else ()
        self.embedding_size = self._config.speaker_width if self._config.kind == "base" else None

    def __call__(self, work: SpeechRequest | Part) -> Draft:
        if isinstance(work, Part):
            return self._draft(work.request, work.texts)
        return self._draft(work, (work.text,) if work.text_open else self._parts(work.text))

    def _draft(self, request: SpeechRequest, parts: tuple[str, ...]) -> Draft:
        """The first of these parts; the others follow."""
        options: Qwen3Options = parse_options(self._spec, request.options)
        self._check_kind(request, options)
        voice = request.voice
        in_context = bool(voice.reference and voice.reference_text) and not options.x_vector_only_mode
        feed = None
        following: Callable[[], Any] | None
        if request.text_open:
            feed = WordFeed(self._encode, self._config.text.tts_eos_token_id, self._config.generation.longest_text)
            role, text = self._encode(ROLE)[:ROLE_TOKENS], list(feed.push(request.text))
            following = self._after(feed, request)
        else:
            part, *rest = parts
            role, text = self._words(part)
            following = (lambda: Part(request, tuple(rest))) if rest else None
        self._check_length(len(text))
        script = Script(
            role=[self._config.text.im_start_token_id, *role],
            text=text,
            language=self._language(request.language, self._preset(voice)),
            instruct=self._instruct(request),
            preset=self._preset_id(voice),
            speaker=self._embedding(voice),
            reference_text=self._words(voice.reference_text or "")[1] if in_context else [],
            non_streaming=self._non_streaming(request, options),
            open=request.text_open,
        )
        return Draft(
            script,
            self._max_frames(len(text), request.text_open),
            self._subtalker(options),
            feed,
            voice.reference,
            in_context,
            following,
        )

    # --- text ---

    def _words(self, text: str) -> tuple[list[int], list[int]]:
        """Role and text, cut where upstream cuts them: a text that begins with a line break shares a token with it."""
        ids = self._encode(ROLE + text)
        return ids[:ROLE_TOKENS], ids[ROLE_TOKENS:]

    def _parts(self, text: str) -> tuple[str, ...]:
        """As few as can be read one at a time."""
        longest = self._config.generation.longest_text
        if not longest or len(text) <= longest:
            return (text,)
        from rhapsode.text.split import pack, split  # few checkpoints need sentences

        return tuple(pack(split(text, most_chars=longest), longest))

    def _after(self, feed: WordFeed, request: SpeechRequest) -> Callable[[], Any]:
        """Names what comes after the part that this feed has ended."""

        def following() -> SpeechRequest | Following | None:
            rest = feed.rest()
            if rest is None:
                return None
            if not rest.closed and not rest.text.strip():
                return Following.NOT_YET
            return replace(request, text=rest.text, text_open=not rest.closed)

        return following

    def _instruct(self, request: SpeechRequest) -> list[int]:
        text, ids = self._config.text, self._encode
        wish = request.voice.description or request.instructions
        if not wish or (self._config.kind == "custom_voice" and text.tts_model_size in "0b6"):
            return []  # the small model was not trained on instructions: upstream leaves them out, and so do we
        return [text.im_start_token_id, *ids(f"user\n{wish}"), text.im_end_token_id, *ids("\n")]

    def _check_length(self, tokens: int) -> None:
        most = self._config.generation.max_frames
        if tokens >= most:
            raise TextTooLong(f"the text has {tokens} tokens; this model speaks at most {most} frames.", param="input")

    def _max_frames(self, tokens: int, is_open: bool) -> int:
        most = self._config.generation.max_frames
        return most if is_open else min(most, SPARE_FRAMES + FRAMES_PER_TOKEN * tokens)

    def _non_streaming(self, request: SpeechRequest, options: Qwen3Options) -> bool:
        if request.text_open and options.non_streaming_mode:
            raise InvalidRequest(
                "text that is still coming cannot all be in the prompt: leave 'non_streaming_mode' out.",
                param="non_streaming_mode",
            )
        if options.non_streaming_mode is not None:
            return options.non_streaming_mode
        return self._config.kind != "base" and not request.text_open

    # --- voice and language ---

    def _check_kind(self, request: SpeechRequest, options: Qwen3Options) -> None:
        kind, voice = self._config.kind, request.voice
        is_a = f"this checkpoint is a {KINDS[kind]} model"
        if options.task_type not in (None, KINDS[kind]):
            raise InvalidRequest(f"{is_a}, not a {options.task_type} one.", param="task_type")
        if kind == "base":
            if voice.name is not None:
                raise UnknownVoice(f"{is_a}, without voices of its own: give it a reference.", param="voice")
            if voice.reference is None and voice.embedding is None:
                raise InvalidRequest(f"{is_a}: it needs a reference or a speaker embedding.", param="voice")
            if voice.description is not None or request.instructions:
                raise InvalidRequest(f"{is_a}: it takes no instructions.", param="instructions")
            return
        if voice.reference is not None or voice.embedding is not None:
            raise InvalidRequest(f"{is_a}: only a Base model clones voices.", param="voice")
        if kind == "voice_design" and voice.name is not None:
            raise UnknownVoice(f"{is_a}: describe the voice instead of naming one.", param="voice")
        if kind == "custom_voice" and voice.description is not None:
            raise InvalidRequest(f"{is_a}: only a VoiceDesign model takes a description.", param="voice")

    def _preset(self, voice: Voice) -> str | None:
        """The preset's name in the checkpoint's spelling; the first one for who does not say."""
        known = self._config.tokens.spk_id
        if self._config.kind != "custom_voice" or not known:
            return None
        name = (voice.name or next(iter(known))).lower()
        if name not in known:
            raise UnknownVoice(f"there is no voice '{voice.name}' here: {did_you_mean(name, known)}", param="voice")
        return name

    def _preset_id(self, voice: Voice) -> int | None:
        name = self._preset(voice)
        return None if name is None else int(self._config.tokens.spk_id[name])

    def _language(self, wish: str | None, preset: str | None) -> int | None:
        known = self._config.tokens.codec_language_id
        language = (wish or "auto").lower()
        language = LANGUAGES.get(language, language)
        dialect = self._config.tokens.spk_is_dialect.get(preset or "")
        if language in ("auto", "chinese") and dialect:
            return known[dialect]
        if language == "auto":
            return None
        if language not in known or "dialect" in language:
            offered = [name for name in known if "dialect" not in name]
            hint = did_you_mean(language, ["auto", *offered])
            raise InvalidRequest(f"'{wish}' is no language of this model: {hint}", param="language")
        return known[language]

    def _embedding(self, voice: Voice) -> NDArray[np.float32] | None:
        if voice.embedding is None:
            return None
        return check_embedding(np.asarray(voice.embedding, np.float32), self._config)

    # --- sampling ---

    def _subtalker(self, options: Qwen3Options) -> tuple[float, int, float]:
        default = self._config.generation
        heat = default.subtalker_temperature if default.subtalker_dosample else 0.0
        wishes = (options.subtalker_temperature, options.subtalker_top_k, options.subtalker_top_p)
        defaults = (heat, default.subtalker_top_k, default.subtalker_top_p)
        temperature, top_k, top_p = (b if a is None else a for a, b in zip(wishes, defaults, strict=True))
        if not 0 <= temperature <= 10:
            raise InvalidRequest("subtalker_temperature must be between 0 and 10.", param="subtalker_temperature")
        if top_k < 0:
            raise InvalidRequest("subtalker_top_k must be 0 (off) or more.", param="subtalker_top_k")
        if not 0 < top_p <= 1:
            raise InvalidRequest("subtalker_top_p must be above 0 and at most 1.", param="subtalker_top_p")
        return float(temperature), int(top_k), float(top_p)


def check_embedding(embedding: NDArray[np.float32], config: QwenConfig) -> NDArray[np.float32]:
    """A speaker embedding that fits this checkpoint."""
    if embedding.shape != (config.speaker_width,) or not np.isfinite(embedding).all():
        found = "x".join(map(str, embedding.shape)) or "1"
        right = f"{config.speaker_width} finite numbers"
        raise InvalidRequest(f"a speaker embedding of this checkpoint has {right}; got {found}.", param="voice")
    return embedding
