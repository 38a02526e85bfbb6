"""The WebSocket of vLLM-Omni and SGLang-Omni: text in segments, audio sentence by sentence, and an end."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable

from rhapsode.serve.dialects.dialect import Fields

MARKS = ",;:"
"""What ends a clause if a blank follows."""
CLAUSE = re.compile(rf"(?<=[{MARKS}])(?=\s)|(?<=[\uff0c\uff1b\uff1a\u3001])")
MOST_CLAUSE_CHARS = 2**15
"""A longer text is cut at sentences only, in one piece: no server takes one."""
BYTES_PER_SAMPLE = 2


class SegmentSession:
    """Our session has utterances, theirs has segments, whose sentences are counted through."""

    def __init__(self, ask: Callable[[Fields], Fields], *, confirms: bool) -> None:
        """`ask` translates the fields of a configuration. `confirms`: a configuration is answered."""
        self.closes = False
        self._ask = ask
        self._confirms = confirms
        self._by_clause = self._has_words = self._after_clause = False
        self._config: Fields = {}
        self._ends: deque[str] = deque()  # what ended each segment that is not spoken yet
        self._before = self._segments = 0
        self._sentence = self._bytes = self._chunks = 0
        self._bytes_per_ms = 0.0

    # --- from the client ---

    def inward(self, message: Fields) -> list[Fields]:
        match message.get("type"):
            case "session.config" | "session.update":
                return [self._configure(message)]
            case "input.text" if isinstance(text := message.get("text"), str):
                return self._text(text)
            case "input.commit" | "input.done" as kind:
                self._after_clause = False
                self._ends.append(kind)
                return [{"type": "input.done"}]
            case "input.cancel" | "session.cancel" as kind:
                self._after_clause = False
                self._ends.append(kind)
        return [message]

    def _configure(self, message: Fields) -> Fields:
        nested = message.get("session")
        given = nested if isinstance(nested, dict) else {k: v for k, v in message.items() if k != "type"}
        fields = self._ask(dict(given))
        self._by_clause = fields.get("split_granularity") == "clause"
        if self._by_clause or fields.get("split_granularity") is None:
            fields["split_granularity"] = "sentence"
        self._has_words = fields.get("word_timestamps") is True
        if self._has_words:
            fields["audio_transport"] = "base64"
        self._config = {
            "response_format": fields.setdefault("response_format", "wav"),
            "stream_audio": fields.setdefault("stream_audio", False),
            "split_granularity": "clause" if self._by_clause else fields["split_granularity"],
        }
        return {**fields, "type": "session.update" if self._confirms else "session.config"}

    def _text(self, text: str) -> list[Fields]:
        """Returns messages that end each clause. The blank after its mark may be the start of the next text."""
        clauses = CLAUSE.split(text) if self._by_clause and len(text) <= MOST_CLAUSE_CHARS else [text]
        messages: list[Fields] = [{"type": "input.flush"}] if self._after_clause and text[:1].isspace() else []
        if text:
            self._after_clause = self._by_clause and text[-1] in MARKS
        for clause in clauses[:-1]:
            messages += [{"type": "input.text", "text": clause}, {"type": "input.flush"}]
        return [*messages, {"type": "input.text", "text": clauses[-1]}]

    # --- to the client ---

    def outward(self, message: Fields) -> list[Fields]:
        match message.get("type"):
            case "session.updated":
                ignored = {name: message[name] for name in ("ignored_fields",) if name in message}
                return [{"type": "session.configured", **self._config, **ignored}]
            case "audio.start":
                self._begin(message)
            case "audio.chunk":
                return [self._chunk(message["audio_b64"], [])]
            case "audio.words":
                times = [words_in_ms(word) for word in message["words"]]
                return [self._chunk("", times)] if self._has_words else []
            case "audio.done":
                return [{**message, "sentence_index": self._sentence, "total_bytes": self._bytes, "error": False}]
            case "error" if "utterance_index" in message:
                done = {"sentence_index": self._sentence, "total_bytes": self._bytes, "error": True}
                return [message, {"type": "audio.done", **done}]
            case "session.cancelled":  # no end follows for what came before the wish to cancel
                while self._ends and self._ends.popleft() not in ("input.cancel", "session.cancel"):
                    pass
                return [message]
            case "session.done":
                return [self._end(message["total_sentences"])]
            case _:
                return [message]
        return [{**message, "sentence_index": self._sentence}]

    def heard(self, size: int) -> None:
        self._bytes += size

    def _begin(self, message: Fields) -> None:
        self._sentence = self._before + message["sentence_index"]
        self._bytes = self._chunks = 0
        self._bytes_per_ms = message["sample_rate"] * message["channels"] * BYTES_PER_SAMPLE / 1000

    def _chunk(self, audio: str, times: list[Fields]) -> Fields:
        """Returns a chunk with the words that became known. It begins where the audio before it ends."""
        start_ms = round(self._bytes / self._bytes_per_ms, 3)
        chunk = {"type": "audio.chunk", "audio_b64": audio, "timestamps": times, "chunk_id": self._chunks}
        self._chunks += 1
        self._bytes += len(audio) * 3 // 4 - audio[-2:].count("=")
        return {**chunk, "start_ms": start_ms, "sentence_index": self._sentence}

    def _end(self, sentences: int) -> Fields:
        self._before += sentences
        kind = self._ends.popleft() if self._ends else "input.done"
        if kind == "input.commit":
            segment = {"segment_index": self._segments, "segment_sentences": sentences}
            self._segments += 1
            return {"type": "input.committed", **segment, "total_sentences": self._before}
        self.closes = True
        return {"type": "session.done", "total_sentences": self._before}


def words_in_ms(word: Fields) -> Fields:
    """Returns a word with its times in milliseconds."""
    times = {"start_ms": round(word["start"] * 1000, 1), "end_ms": round(word["end"] * 1000, 1)}
    return {"word": word["word"], **times}
