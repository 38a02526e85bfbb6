"""The prepare stage: checks and tokenises a request. What it returns lacks only the encoded reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rhapsode.checkpoints.sentencepiece import SentencePiece
from rhapsode.errors import CheckpointError, InvalidRequest, TextTooLong
from rhapsode.models.base import Part, StageContext
from rhapsode.models.moss_tts_nano.chunks import chunks_of, pause_after_s
from rhapsode.models.moss_tts_nano.config import MossConfig, read
from rhapsode.models.moss_tts_nano.spec import MossOptions
from rhapsode.models.parts import checkpoint_of
from rhapsode.models.turn_feed import next_of
from rhapsode.text.turns import NO_SPEAKERS, TurnStream
from rhapsode.types import Clip, Reference, SpeechRequest

TOKENIZER = "tokenizer.model"
LEAST_LIMIT, FRAMES_PER_TOKEN = 375, 8
"""Upstream cuts at 375 frames (30 s), enough for the 75 tokens of a chunk. A longer text may take 0.64 s a token."""
MOST_CHARS = 200
"""The most characters of a sentence that is spoken while more text arrives; a longer one is split."""


@dataclass(frozen=True)
class MossDraft:
    """A prompt before its reference is encoded."""

    text: list[int] | None
    """`None`: the prompt is context only, since the text arrives later."""
    max_frames: int
    options: MossOptions
    books: int
    reference: Clip | None = None
    """A recording of the voice to speak with."""
    continued: Clip | None = None
    """Speech to continue; its transcript is part of the text."""
    feed: TurnStream | None = None
    """Receives text that arrives while the request is spoken."""
    following: Callable[[], Any] | None = None
    """Returns the next chunk of a text that is spoken in several, as `Prompt.following` does."""
    silence_s: float | None = None
    """The silence before a following chunk; `None` for the first."""


@dataclass(frozen=True)
class NextChunk(Part):
    """The chunks that are left, and the silence before them."""

    silence_s: float | None = None
    """`None` if nothing was spoken before."""
    feed: TurnStream | None = None


class MossPrepare:
    """Turns a checked request into a draft."""

    def __init__(self, context: StageContext) -> None:
        self._config = read(context.config)
        self._tokenizer = read_tokenizer(context, self._config)

    def __call__(self, work: SpeechRequest | NextChunk) -> MossDraft:
        request = work.request if isinstance(work, NextChunk) else work
        options: MossOptions = request.options
        books = self._books(options)
        reference, continued = recordings(request, options)
        draft = MossDraft(
            None, 0, options, books, reference=reference, continued=continued.audio if continued else None
        )
        if isinstance(work, NextChunk):
            text, *rest = work.texts
            draft = replace(draft, silence_s=work.silence_s, feed=work.feed)
        elif request.text_open:
            feed = TurnStream(NO_SPEAKERS, MOST_CHARS)
            feed.push(request.text)
            return replace(draft, feed=feed, following=_next_sentence(request, feed))
        else:
            most = options.max_text_tokens if reference is not None else 0
            text, *rest = chunks_of(request.text, most, self._count)
        own = self._tokenizer.encode(text)
        tokens = self._tokenizer.encode((continued.text or "") + text) if continued else own
        self._check_length(len(tokens))
        return replace(
            draft,
            text=tokens,
            max_frames=max(LEAST_LIMIT, FRAMES_PER_TOKEN * len(own)),
            following=_following(request, text, tuple(rest), draft.feed),
        )

    def _count(self, text: str) -> int:
        return len(self._tokenizer.encode(text))

    def _books(self, options: MossOptions) -> int:
        most = self._config.books
        if options.nq is not None and options.nq > most:
            raise InvalidRequest(f"nq is {options.nq}; this checkpoint has {most} codebooks.", param="nq")
        return options.nq or most

    def _check_length(self, tokens: int) -> None:
        most = self._config.tokens.max_position_embeddings
        if tokens >= most:
            raise TextTooLong(f"the text has {tokens} tokens; this model takes fewer than {most}.", param="input")


def _following(
    request: SpeechRequest, text: str, rest: tuple[str, ...], feed: TurnStream | None
) -> Callable[[], Any] | None:
    """Returns the `Prompt.following` of a prompt that speaks `text`: a function that returns the next chunk."""
    silence_s = pause_after_s(text)
    if feed is not None:
        return _next_sentence(request, feed, silence_s)
    return (lambda: NextChunk(request, rest, silence_s)) if rest else None


def _next_sentence(request: SpeechRequest, feed: TurnStream, silence_s: float | None = None) -> Callable[[], Any]:
    return next_of(feed, lambda sentence: NextChunk(request, (sentence,), silence_s, feed))


def recordings(request: SpeechRequest, options: MossOptions) -> tuple[Clip | None, Reference | None]:
    """Returns the recording that gives the sound of the voice, or the one that is continued."""
    voice = request.voice
    given = voice.references[0] if voice.references else None
    if given is None and voice.continued is None:
        if options.cloning is not None:
            raise InvalidRequest("'cloning' needs reference audio.", param="cloning")
        return None, None
    if voice.continued is not None:
        if given is not None:
            raise InvalidRequest("moss-tts-nano takes a reference or prompt audio, not both.", param="prompt_audio")
        if options.cloning == "reference":
            raise InvalidRequest("prompt audio is always continued; give it as 'ref_audio'.", param="cloning")
        return None, _with_transcript(voice.continued, "prompt_text")
    assert given is not None
    if (options.cloning or ("continuation" if given.text else "reference")) == "reference":
        return given.audio, None
    return None, _with_transcript(given, "ref_text")


def _with_transcript(recording: Reference, param: str) -> Reference:
    if not recording.text:
        raise InvalidRequest("to continue a recording, its transcript is needed.", param=param)
    return recording


def read_tokenizer(context: StageContext, config: MossConfig) -> SentencePiece:
    file = checkpoint_of(context) / TOKENIZER
    tokenizer = SentencePiece(file)
    if tokenizer.size > config.layers.vocab_size:
        sizes = f"{tokenizer.size} pieces, but config.json has a vocabulary of {config.layers.vocab_size}"
        raise CheckpointError(f"{file} has {sizes}.")
    return tokenizer


def read_encode(folder: Path) -> Callable[[str], list[int]]:
    """Returns the tokenizer of a checkpoint, as a function."""
    return SentencePiece(folder / TOKENIZER).encode
