"""The WebSocket of vLLM-Omni and SGLang-Omni: text in segments, audio sentence by sentence, and an end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rhapsode.errors import InvalidRequest
from rhapsode.serve.dialects.clauses import MARKS, MOST_CLAUSE_CHARS, clause_ends
from rhapsode.serve.dialects.dialect import Fields

WAV_HEADER_BYTES = 44
MOST_ID_CHARS = 256
BYTES_PER_SAMPLE = 2
OUR_GRANULARITY = {"clause": "sentence", "none": "utterance"}
IDLE = "timeout"
"""The code of the error after which our session closes, because the client sent nothing for too long."""
FULL = "queue_full"
"""The code of the error if too many utterances wait already."""
BY_TOKEN, BY_COMMIT = "token_level", "sentence_commit"
"""Modes of streaming: audio is sent while it is made; by token, also while the text arrives."""


@dataclass(frozen=True)
class SessionRules:
    """How the sessions of two servers differ."""

    ask: Callable[[Fields], Fields]
    """Translates the fields of a configuration."""
    error: Callable[[Fields], Fields]
    """Returns what an error event has beside its message, from what ours has under `error`."""
    response_format: str
    split_granularity: str
    confirms: bool
    """A configuration is answered, and events have the session's id."""
    closes: bool
    """The connection closes after the first `input.done`; otherwise another utterance may follow."""


@dataclass(frozen=True)
class Config:
    """What the answers to the text of a configuration depend on."""

    response_format: str
    split_granularity: str
    stream_audio: bool = False
    has_words: bool = False


@dataclass
class SessionSegment:
    """The text up to a commit or an end, from its first message until it is spoken."""

    config: Config
    end: str = ""
    """The type of the message that ended it, if one has."""
    commit_id: Any = None
    chars: int = 0


@dataclass
class SessionSentence:
    """One piece of audio, while it is sent."""

    index: int
    bytes_per_ms: float = 0.0
    shape: Fields = field(default_factory=dict)
    """The sample rate and the number of channels."""
    header_bytes: int = 0
    size: int = 0
    chunks: int = 0
    words: list[Fields] = field(default_factory=list)

    def time_ms(self) -> float:
        return max(self.size - self.header_bytes, 0) / self.bytes_per_ms if self.bytes_per_ms else 0.0


class SegmentSession:
    """Our session has utterances, theirs has segments. Sentences are counted through those of one `input.done`."""

    def __init__(self, rules: SessionRules, session_id: str) -> None:
        self.closes = False
        self._rules = rules
        self._id = session_id
        self._after_clause = False
        self._config = Config(rules.response_format, rules.split_granularity)
        self._segments: deque[SessionSegment] = deque()  # those that are not spoken yet
        self._sentence: SessionSentence | None = None
        self._words: list[Fields] = []  # of the sentence that starts next: a whole file has its words before it
        self._next = self._before = self._commits = self._utterances = 0

    # --- from the client ---

    def inward(self, message: Fields) -> Iterable[Fields]:
        match message.get("type"):
            case "session.config" | "session.update" if self._open is None:
                return [self._configure(message)]
            case "input.text" if isinstance(text := message.get("text"), str):
                self._begin().chars += len(text)
                return self._text(text)
            case "input.commit" | "input.done" as kind:
                commit_id = message.get("commit_id")  # is kept until the text is spoken
                if not isinstance(commit_id, str | int | None) or len(str(commit_id)) > MOST_ID_CHARS:
                    raise InvalidRequest(
                        f"'commit_id' is a text of up to {MOST_ID_CHARS} characters.", param="commit_id"
                    )
                self._end(kind, commit_id)
                return [{"type": "input.done"}]
            case "input.cancel" | "session.cancel" as kind:
                self._end(kind)
        return [message]

    @property
    def _open(self) -> SessionSegment | None:
        """The last segment, if it may grow."""
        return self._segments[-1] if self._segments and not self._segments[-1].end else None

    def _begin(self) -> SessionSegment:
        if self._open is None:
            self._segments.append(SessionSegment(self._config))
        return self._segments[-1]

    def _end(self, kind: str, commit_id: Any = None) -> None:
        segment = self._begin()
        segment.end, segment.commit_id = kind, commit_id
        self._after_clause = False

    def _configure(self, message: Fields) -> Fields:
        nested = message.get("session")
        given = nested if isinstance(nested, dict) else {k: v for k, v in message.items() if k != "type"}
        fields = self._rules.ask(dict(given))
        split = fields.get("split_granularity", self._rules.split_granularity)
        fields["split_granularity"] = OUR_GRANULARITY.get(split, split) if isinstance(split, str) else split
        if (mode := fields.get("streaming_mode")) in (BY_TOKEN, BY_COMMIT):
            del fields["streaming_mode"]
            fields.setdefault("stream_audio", True)
            if mode == BY_TOKEN and "split_granularity" not in given:
                fields["split_granularity"] = "none"  # what the model speaks best, if it takes text while it speaks
        has_words = fields.get("word_timestamps") is True
        if has_words:
            fields["audio_transport"] = "base64"
        form = fields.setdefault("response_format", self._rules.response_format)
        self._config = Config(form, split, fields.setdefault("stream_audio", False), has_words)
        return {**fields, "type": "session.update" if self._rules.confirms else "session.config"}

    def _text(self, text: str) -> Iterator[Fields]:
        """Yields the text clause by clause, each with its end. The blank after a mark may start the next text."""
        by_clause = self._segments[-1].config.split_granularity == "clause"
        if self._after_clause and text[:1].isspace():
            yield {"type": "input.flush"}
        if text:
            self._after_clause = by_clause and text[-1] in MARKS
        start = 0
        for end in clause_ends(text) if by_clause and len(text) <= MOST_CLAUSE_CHARS else ():
            yield {"type": "input.text", "text": text[start:end]}
            yield {"type": "input.flush"}
            start = end
        yield {"type": "input.text", "text": text[start:]}

    # --- to the client ---

    def outward(self, message: Fields) -> list[Fields]:
        match message.get("type"):
            case "session.updated":
                return [self._configured(message)]
            case "audio.start":
                return [self._start(message)]
            case "audio.chunk" if self._sentence is not None:
                return [self._chunk(self._sentence, message["audio_b64"], None)]
            case "audio.words":
                words = self._words if self._sentence is None else self._sentence.words
                words += map(words_in_ms, message["words"])
                return []
            case "audio.done" if self._sentence is not None:
                if not self._sentence.bytes_per_ms:  # a compressed file
                    self._sentence.bytes_per_ms = self._sentence.size / 1000 / (message["audio_s"] or 1)
                words = [self._chunk(self._sentence, "", self._sentence.words)] if self._now.has_words else []
                return [*words, self._done(self._sentence, message, failed=False)]
            case "error":
                return self._failed(message)
            case "session.cancelled":  # no end follows for what came before the wish to cancel
                self._sentence, self._before, self._words = None, self._next, []
                while self._segments and self._segments.popleft().end not in ("input.cancel", "session.cancel"):
                    pass
            case "session.done":
                return [self._ended(message["total_sentences"])]
        return [message]

    def heard(self, size: int) -> None:
        if self._sentence is not None:
            self._sentence.size += size

    @property
    def _now(self) -> Config:
        """The configuration of what is spoken now."""
        return self._segments[0].config if self._segments else self._config

    def _named(self, kind: str, **fields: Any) -> Fields:
        """Returns an event with the session's id."""
        return {"type": kind, **({"session_id": self._id} if self._rules.confirms else {}), **fields}

    def _of(self, sentence: SessionSentence) -> Fields:
        """Returns the fields that name a sentence."""
        named = {"id": f"{self._id}-{sentence.index}"} if self._rules.confirms else {}
        return {**named, "utterance_index": self._utterances, "sentence_index": sentence.index}

    def _configured(self, message: Fields) -> Fields:
        now = self._config
        config = {
            "response_format": now.response_format,
            "stream_audio": now.stream_audio,
            "split_granularity": now.split_granularity,
        }
        ignored = {name: message[name] for name in ("ignored_fields",) if name in message}
        return self._named("session.configured", **config, **ignored)

    def _start(self, message: Fields) -> Fields:
        self._sentence = sentence = SessionSentence(self._before + message["sentence_index"])
        sentence.shape = {name: message[name] for name in ("sample_rate", "channels")}
        if message["format"] in ("pcm", "wav"):
            sentence.bytes_per_ms = message["sample_rate"] * message["channels"] * BYTES_PER_SAMPLE / 1000
            sentence.header_bytes = WAV_HEADER_BYTES if message["format"] == "wav" else 0
        sentence.words, self._words = self._words, []
        self._next = sentence.index + 1
        words = {"word_timestamps": True} if self._now.has_words else {}
        text = {"sentence_text": message["sentence_text"].strip()}
        return {**message, **self._of(sentence), **text, **words}

    def _chunk(self, sentence: SessionSentence, audio: str, times: list[Fields] | None) -> Fields:
        """Returns a chunk of audio; or the one after all audio, with its words."""
        start_ms = sentence.time_ms() if times is None else 0.0
        sentence.size += len(audio) * 3 // 4 - audio[-2:].count("=")
        chunk = {"type": "audio.chunk", **self._of(sentence), "chunk_id": sentence.chunks, **sentence.shape}
        span = {"chunk_start_ms": round(start_ms), "chunk_end_ms": round(sentence.time_ms())}
        sentence.chunks += 1
        return {**chunk, **span, "start_ms": round(start_ms, 3), "audio_b64": audio, "timestamps": times}

    def _done(self, sentence: SessionSentence, message: Fields, *, failed: bool) -> Fields:
        self._sentence = None
        return {**message, **self._of(sentence), "total_bytes": sentence.size, "error": failed}

    def _failed(self, message: Fields) -> list[Fields]:
        """Returns an error; of a sentence also its end, and its start if it had none yet."""
        body = message.get("error") or {}
        told = {**message, **self._rules.error(body)}
        self.closes = body.get("code") == IDLE and "utterance_index" not in message
        if "utterance_index" not in message:
            if body.get("code") == FULL and self._segments and self._open is None:
                self._segments.pop()  # its end was refused
            return [told]
        told["utterance_index"] = self._utterances
        start, sentence, self._words = [], self._sentence, []
        if sentence is None:
            sentence = SessionSentence(self._next)
            self._next += 1
            shape = {"sentence_text": "", "format": self._now.response_format}
            start = [{"type": "audio.start", **self._of(sentence), **shape}]
        elif sentence.size:
            told |= {"partial_audio": True, "action": "discard"}
        return [*start, told, self._done(sentence, {"type": "audio.done"}, failed=True)]

    def _ended(self, sentences: int) -> Fields:
        segment = self._segments.popleft() if self._segments else SessionSegment(self._config, "input.done")
        self._before += sentences
        self._next = self._before
        told = {"utterance_index": self._utterances, "total_sentences": self._before}
        if segment.end == "input.commit":
            committed = {"commit_id": segment.commit_id, "sentence_index": self._commits}
            told |= {"segment_index": self._commits, "segment_sentences": sentences, "chars_committed": segment.chars}
            self._commits += 1
            return self._named("input.committed", **committed, **told)
        self.closes = self._rules.closes
        self._utterances += 1
        self._before = self._next = self._commits = 0
        return self._named("session.done", **told)


def words_in_ms(word: Fields) -> Fields:
    """Returns a word with its times in milliseconds."""
    times = {"start_ms": round(word["start"] * 1000, 1), "end_ms": round(word["end"] * 1000, 1)}
    return {"word": word["word"], **times}
