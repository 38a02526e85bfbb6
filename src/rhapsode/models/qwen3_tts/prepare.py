"""The prepare stage: checks and tokenises a request. What it returns lacks only the encoded reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rhapsode.checkpoints import qwen2_tokenizer as tokenizer
from rhapsode.errors import CheckpointError, InvalidRequest, TextTooLong
from rhapsode.models.base import Following, Part, StageContext, Traits, is_short
from rhapsode.models.qwen3_tts.config import KINDS, read
from rhapsode.models.qwen3_tts.feed import ROLE, ROLE_TOKENS, WordFeed
from rhapsode.models.qwen3_tts.info import languages
from rhapsode.models.qwen3_tts.prompt import QwenScript
from rhapsode.models.qwen3_tts.spec import Qwen3Options
from rhapsode.types import Clip, SpeechRequest, Voice

CHINESE = "zh"

FRAMES_PER_TOKEN, SPARE_FRAMES = 16, 128
"""More than any text needs: 1.28 s a token (speech takes about 0.3 s), and ten seconds for pauses and breath."""


@dataclass
class QwenDraft:
    """A prompt before its reference is encoded."""

    script: QwenScript
    max_frames: int
    subtalker: tuple[float, int, float]
    feed: WordFeed | None = None
    reference: Clip | None = None
    in_context: bool = False
    """Whether the reference's codes go into the prompt, together with its transcript."""
    following: Callable[[], Any] | None = None
    """Returns the next part of a text that is spoken in several, as `Prompt.following` does."""


class QwenPrepare:
    """Turns a checked request into a draft."""

    def __init__(self, context: StageContext) -> None:
        if context.checkpoint is None:
            raise CheckpointError(f"{context.spec.name} needs a checkpoint: give its folder or its Hugging Face id.")
        self._config = read(context.config, context.checkpoint)
        self._languages = languages(self._config)
        self._encode = tokenizer.read(context.checkpoint)

    def traits(self) -> Traits:
        return Traits(is_quick=is_short, look_ahead=self.look_ahead)

    def __call__(self, work: SpeechRequest | Part) -> QwenDraft:
        if isinstance(work, Part):
            return self._draft(work.request, work.texts)
        return self._draft(work, (work.text,) if work.text_open else self._parts(work.text))

    def look_ahead(self, works: Sequence[SpeechRequest]) -> None:
        """Tokenises the texts of requests that arrived together, in one call."""
        self._encode.look_ahead([ROLE + request.text for request in works if not request.text_open])

    def _draft(self, request: SpeechRequest, parts: tuple[str, ...]) -> QwenDraft:
        """Returns the draft of the first part; the others are its `following`."""
        options: Qwen3Options = request.options
        self._check_kind(request, options)
        voice = request.voice
        reference = voice.references[0] if voice.references else None
        transcript = reference.text if reference and not self._vector_only(options) else None
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
        preset = self._preset(voice)
        script = QwenScript(
            role=[self._config.text.im_start_token_id, *role],
            text=text,
            language=self._language(request.language, preset),
            instruct=self._instruct(request),
            preset=None if preset is None else int(self._config.tokens.spk_id[preset]),
            speaker=None if voice.embedding is None else np.asarray(voice.embedding, np.float32),
            reference_text=self._words(transcript)[1] if transcript else [],
            non_streaming=self._non_streaming(request, options),
            open=request.text_open,
        )
        return QwenDraft(
            script,
            self._max_frames(len(text), request.text_open),
            self._subtalker(options),
            feed,
            reference.audio if reference else None,
            in_context=bool(transcript),
            following=following,
        )

    # --- text ---

    def _words(self, text: str) -> tuple[list[int], list[int]]:
        """Returns the tokens of the role and of the text.

        They are tokenised together and then cut, as upstream does: a line break at the start of a text joins the role.
        """
        ids = self._encode(ROLE + text)
        return ids[:ROLE_TOKENS], ids[ROLE_TOKENS:]

    def _parts(self, text: str) -> tuple[str, ...]:
        """Cuts a text into as few parts as the checkpoint can take."""
        longest = self._config.generation.longest_text
        if not longest or len(text) <= longest:
            return (text,)
        from rhapsode.text.split import pack, split  # few checkpoints need sentences

        return tuple(pack(split(text, most_chars=longest), longest))

    def _after(self, feed: WordFeed, request: SpeechRequest) -> Callable[[], Any]:
        """Returns the `Prompt.following` of an open text: a function that returns a request for the feed's `rest`."""

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
        wanted = request.voice.description or request.instructions
        if not wanted or not self._config.takes_instructions:
            return []
        return [text.im_start_token_id, *ids(f"user\n{wanted}"), text.im_end_token_id, *ids("\n")]

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
        if kind == "base" and not voice.references and voice.embedding is None:
            raise InvalidRequest(f"{is_a}: it needs a reference or a speaker embedding.", param="voice")

    def _preset(self, voice: Voice) -> str | None:
        """Returns the preset's name: the first preset if the request names none. A cloned voice has no preset."""
        known = self._config.tokens.spk_id
        if self._config.kind != "custom_voice" or not known or voice.references or voice.embedding is not None:
            return None
        return voice.name or next(iter(known))

    def _vector_only(self, options: Qwen3Options) -> bool:
        """Returns whether clones leave the reference's codes out, even if it has a transcript."""
        asked = options.x_vector_only_mode
        return self._config.generation.x_vector_only_mode if asked is None else asked

    def _language(self, language: str | None, preset: str | None) -> int | None:
        """Returns the language's id. For a preset with a dialect, the dialect replaces automatic and Chinese."""
        dialect = self._config.tokens.spk_is_dialect.get(preset or "")
        if dialect and language in (None, CHINESE):
            return self._config.tokens.codec_language_id[dialect]
        return None if language is None else self._languages[language]

    # --- sampling ---

    def _subtalker(self, options: Qwen3Options) -> tuple[float, int, float]:
        """Returns temperature, top-k and top-p of the codes after the first."""
        default = self._config.generation
        temperature, top_k, top_p = options.subtalker_temperature, options.subtalker_top_k, options.subtalker_top_p
        if temperature is None:
            temperature = default.subtalker_temperature if default.subtalker_dosample else 0.0
        return (
            float(temperature),
            int(default.subtalker_top_k if top_k is None else top_k),
            float(default.subtalker_top_p if top_p is None else top_p),
        )
