"""vLLM-Omni's speech API."""

from __future__ import annotations

import base64
import json
from functools import partial
from typing import Any

from rhapsode import __version__
from rhapsode.audio.formats import FORMATS
from rhapsode.serve.dialects.dialect import Call, Dialect, Fields, Reply, Row
from rhapsode.serve.dialects.session import SegmentSession, SessionRules, words_in_ms
from rhapsode.serve.dialects.voices import VOICE_ROWS, VOICES, ask_batch, clone, deleted, elsewhere

SPEECH = "/v1/audio/speech"
MOST_HEADER_BYTES = 4096
ERROR_TYPES = {400: "BadRequestError", 401: "Unauthorized", 404: "NotFoundError", 429: "TooManyRequestsError"}


def _ask_fields(fields: Fields) -> Fields:
    """Returns the fields of an utterance: parameters for the model alone are fields here."""
    fields = clone(fields)
    if isinstance(extra := fields.pop("extra_params", None), dict):
        fields = {**extra, **fields}
    return fields


def _ask_speech(fields: Fields, call: Call) -> Fields:
    """Returns a request that is whole unless it asks for a stream; `stream` alone means events."""
    fields = {"response_format": "wav", **_ask_fields(fields)}
    wanted, form = fields.pop("stream", False), fields.pop("stream_format", None)
    if not isinstance(wanted, bool) or form not in (None, "audio", "sse"):
        return {**fields, "stream": wanted, "stream_format": form}  # an error, as on our own route
    if wanted or form:
        call.kept["format"] = fields["response_format"]
        return {**fields, "stream_format": form or "sse"}
    return {**fields, "stream": False}


def _answer_with_words(body: Any, call: Call) -> Reply:
    """Returns the audio alone; a header has its words, unless they are too many for one."""
    words = json.dumps([words_in_ms(word) for word in body["words"]], separators=(",", ":"))
    fits = len(words) <= MOST_HEADER_BYTES
    told = {"X-Word-Timestamps": words} if fits else {"X-Word-Timestamps-Omitted": "true"}
    return Reply(base64.b64decode(body["audio"]), headers={"Content-Type": FORMATS[body["format"]].media_type, **told})


def _usage(usage: Fields) -> Fields:
    """Returns the usage with its details: what a recording takes is not counted here."""
    return {**usage, "input_token_details": {"text_tokens": usage["input_tokens"], "audio_tokens": 0}}


def _counts(call: Call) -> dict[str, str]:
    """Returns the counts of a whole file."""
    if "x-output-tokens" not in call.headers:
        return {}
    given, made = call.headers["x-input-tokens"], call.headers["x-output-tokens"]
    counts = {"INPUT": given, "OUTPUT": made, "TOTAL": int(given) + int(made), "INPUT-TEXT": given, "INPUT-AUDIO": 0}
    return {f"X-VLLM-OMNI-{name}-TOKENS": str(count) for name, count in counts.items()}


def _event(kind: str, data: bytes, call: Call) -> bytes | None:
    match kind:
        case "speech.audio.delta":  # a field more, without reading the audio
            call.kept["has_audio"] = True
            more = json.dumps({"response_format": call.kept["format"]}).encode()
            return b"event: speech.audio.delta\ndata: " + data[:-1] + b", " + more[1:] + b"\n\n"
        case "speech.audio.done":
            fields = json.loads(data)
            fields["usage"] = _usage(fields["usage"])
        case "error":
            kind = "speech.audio.error"
            partial_audio = {"partial_audio": True, "action": "discard"} if "has_audio" in call.kept else {}
            error = {**json.loads(data)["error"], "type": "server_error", "code": 500, **partial_audio}
            fields = {"type": kind, "error": error}
        case _:
            return None
    return f"event: {kind}\ndata: {json.dumps(fields)}\n\n".encode()


def _ask_batch(fields: Fields, call: Call) -> Fields:
    return ask_batch(fields, _ask_fields)


def _answer_batch(body: Any, call: Call) -> Reply:
    for result in body["results"]:
        if result["status"] == "error":
            result["error"] = result["error"]["message"]
        else:
            result["usage"] = _usage(result["usage"])
    return Reply(body)


def _error(status: int, error: Fields) -> Any:
    kind = ERROR_TYPES.get(status, "BadRequestError" if status < 500 else "InternalServerError")
    return {"error": {**error, "type": kind, "code": status}}


def _not_deleted(status: int, error: Fields) -> Any:
    """Returns an error, as version 0.30 has it, and the mark of the versions before, whose error was a text."""
    return {"success": False, **_error(status, error)}


def _version(fields: Fields, call: Call) -> Reply:
    return Reply({"version": __version__})


SESSION = SessionRules(
    _ask_fields,
    error=lambda body: {},
    response_format="wav",
    split_granularity="none",
    confirms=False,
    closes=False,
)
DIALECT = Dialect(
    rows=(
        Row("POST", SPEECH, ask=_ask_speech, answer=_answer_with_words, event=_event, headers=_counts),
        Row("POST", f"{SPEECH}/batch", ask=_ask_batch, answer=_answer_batch),
        Row("WS", f"{SPEECH}/stream"),
        Row("DELETE", f"{VOICES}/{{voice}}", answer=deleted, error=_not_deleted),
        *VOICE_ROWS,
        Row("GET", "/version", reply=_version),
        Row("POST", "/v1/chat/completions", reply=elsewhere(_error, "A chat that answers with audio")),
        Row("POST", "/v1/audio/generate", reply=elsewhere(_error, "Sound and music from a description")),
    ),
    error=_error,
    session=partial(SegmentSession, SESSION),
)
