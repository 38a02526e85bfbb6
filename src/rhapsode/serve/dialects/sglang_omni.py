"""SGLang-Omni's speech API."""

from __future__ import annotations

import base64
import json
import struct
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from rhapsode.audio.formats import FORMATS
from rhapsode.serve.dialects.dialect import ELSEWHERE, Call, Dialect, Fields, Reply, Row
from rhapsode.serve.dialects.session import SegmentSession, SessionRules
from rhapsode.serve.dialects.voices import VOICE_ROWS, VOICES, ask_batch, clone, elsewhere, given_fields, list_voices

SPEECH = "/v1/audio/speech"
WAV_HEADER_BYTES = 44
PCM, BITS = 1, 16
CACHE_COUNTERS = (
    *("entries", "memory_bytes", "max_bytes", "hit_count", "miss_count"),
    *("eviction_count", "delete_invalidation_counter"),
)
INLINE, NAMED = ("data", "base64"), ("audio_path", "ref_audio", "audio", "url")
"""Where a reference has its recording: as base64, or as an address. The first that is given counts."""
NOT_SOUND = (*INLINE, *NAMED, "media_type", "vq_codes")
TRUE = ("true", "1", "yes", "on", "t", "y")
OWN_CODES = ("model_not_found", "invalid_api_key", "not_found")
"""Of errors that keep their type and their code."""


def _ask_fields(fields: Fields) -> Fields:
    """Returns the fields of an utterance. A reference may bring its recording as base64, and codes beside it."""
    fields = clone(fields)
    if isinstance(references := fields.get("references"), list):
        fields["references"] = [_reference(one) if isinstance(one, dict) else one for one in references]
    return fields


def _reference(reference: Fields) -> Fields:
    """Returns a reference as ours has it. Codes go unheard; a recording under a name that is new here is an error."""
    given = given_fields(reference)
    kept = {name: value for name, value in given.items() if name not in NOT_SOUND}
    kind = given.get("media_type") or "audio/wav"
    inline = next((given[name] for name in INLINE if given.get(name)), None)
    named = next((given[name] for name in NAMED if given.get(name)), None)
    if isinstance(inline, str):
        kept["audio_path"] = inline if inline.startswith("data:") else f"data:{kind};base64,{inline}"
    elif inline or named:
        kept["audio_path"] = inline or named
    return kept


def _ask_speech(fields: Fields, call: Call) -> Fields:
    """Returns a request that is whole unless it asks for a stream: of samples, or of the events that `stream_format`
    asks for, as version 0.1.9 has them; otherwise, but for PCM, of the events of the versions before it."""
    fields = {"response_format": "wav", **_ask_fields(fields)}
    wanted, form = fields.pop("stream", False), fields.pop("stream_format", None)
    if not isinstance(wanted, bool) or form not in (None, "audio", "sse"):
        return {**fields, "stream": wanted, "stream_format": form}  # an error, as on our own route
    if not wanted:
        return {**fields, "stream": False}
    is_chunked = form is None
    form = form or ("audio" if fields["response_format"] == "pcm" else "sse")
    call.told |= {"X-Bit-Depth": str(BITS), **({"X-SGLang-Omni-Speech-Id": call.request_id} if form == "audio" else {})}
    call.kept = {"format": fields["response_format"], "is_chunked": is_chunked, "index": 0, "skip": WAV_HEADER_BYTES}
    return {**fields, "stream_format": form}


def _counts(call: Call) -> dict[str, str]:
    """Returns the counts of a whole file, under both kinds of names."""
    if "x-output-tokens" not in call.headers:
        return {}
    given, made = call.headers["x-input-tokens"], call.headers["x-output-tokens"]
    counts = {"Input": given, "Output": made, "Total": str(int(given) + int(made))}
    named = {f"X-SGLang-Omni-{name}-Tokens": count for name, count in counts.items()}
    return {"X-Prompt-Tokens": given, "X-Completion-Tokens": made, **named}


def _event(kind: str, data: bytes, call: Call) -> bytes | None:
    if not call.kept["is_chunked"]:
        return _plain_event(kind, data)
    fields = json.loads(data)
    match kind:
        case "speech.audio.delta":
            audio = _file(base64.b64decode(fields["audio"]), call)
            return _chunk(call, audio=_described(audio, call), finish_reason=None) if audio else b""
        case "speech.audio.done":
            usage = fields["usage"]
            counts = {"prompt_tokens": usage["input_tokens"], "completion_tokens": usage["output_tokens"]}
            counts["total_tokens"] = usage["total_tokens"]
            last = _chunk(call, audio=None, finish_reason=fields["finish_reason"], usage=counts)
            return last + b"data: [DONE]\n\n"
        case "error":
            return f"data: {json.dumps(_error(500, fields['error']))}\n\ndata: [DONE]\n\n".encode()
    return b""


def _plain_event(kind: str, data: bytes) -> bytes:
    """Returns an event as ours is, but for its name, which stands in its data alone."""
    match kind:
        case "speech.audio.delta":
            return b"data: " + data + b"\n\n"
        case "speech.audio.done":
            fields = json.loads(data)
            usage = {name: fields["usage"][name] for name in ("input_tokens", "output_tokens", "total_tokens")}
            told = {"type": kind, "usage": usage, "finish_reason": fields["finish_reason"]}
        case "error":
            told = {"type": "error", **_error(500, json.loads(data)["error"])}
        case _:
            return b""
    return f"data: {json.dumps(told)}\n\n".encode()


def _file(audio: bytes, call: Call) -> bytes:
    """Returns the audio of one event: of WAV, a whole file, since clients open each by itself."""
    if call.kept["format"] != "wav":
        return audio
    skipped = min(call.kept["skip"], len(audio))
    call.kept["skip"] -= skipped
    samples = audio[skipped:]
    rate, channels = int(call.headers["x-sample-rate"]), int(call.headers["x-channels"])
    width = channels * BITS // 8
    form = struct.pack("<IHHIIHH", 16, PCM, channels, rate, rate * width, width, BITS)
    size = len(samples)
    head = struct.pack("<4sI4s4s", b"RIFF", 36 + size, b"WAVE", b"fmt ") + form + struct.pack("<4sI", b"data", size)
    return head + samples if samples else b""


def _described(audio: bytes, call: Call) -> Fields:
    name = call.kept["format"]
    return {
        "data": base64.b64encode(audio).decode("ascii"),
        "format": name,
        "mime_type": FORMATS[name].media_type,
        "sample_rate": int(call.headers["x-sample-rate"]),
    }


def _chunk(call: Call, **fields: Any) -> bytes:
    index, call.kept["index"] = call.kept["index"], call.kept["index"] + 1
    chunk = {"id": f"speech-{call.request_id}", "object": "audio.speech.chunk", "index": index, **fields}
    return f"data: {json.dumps(chunk)}\n\n".encode()


def _ask_batch(fields: Fields, call: Call) -> Fields:
    asked = ask_batch(fields, _ask_fields)
    items, shared = asked.get("items"), asked["response_format"]
    if isinstance(items, list):
        call.kept["formats"] = [item.get("response_format", shared) for item in items if isinstance(item, dict)]
    return asked


def _outcome(body: Any, call: Call) -> Reply:
    """Returns how a stream ended; what it counted is in events only."""
    told = {"request_id": body["id"], "finish_reason": body.get("finish_reason"), "usage": None}
    return Reply(_no_outcome(404, body), 404) if body["status"] == "running" else Reply(told)


def _no_outcome(status: int, error: Fields) -> Any:
    return {"detail": error.get("message", "this request has not ended yet.")}


def _list_voices(body: Any, call: Call) -> Reply:
    """Returns the voices with the counters of a cache that there is none of here, or names alone."""
    if dict(parse_qsl(call.query)).get("names_only", "").lower() in TRUE:
        return Reply({"uploaded_voice_names": [voice["name"] for voice in body["data"] if voice["kind"] == "uploaded"]})
    return Reply({**list_voices(body, call).body, "cache_stats": dict.fromkeys(CACHE_COUNTERS, 0)})


def _answer_batch(body: Any, call: Call) -> Reply:
    for result, form in zip(body["results"], call.kept["formats"], strict=True):
        if result["status"] == "error":
            error = _translated(result["error"])
            param = f"items.{result['index']}.{error['param']}" if error["param"] else None
            result["error"] = {**error, "param": param}
        else:
            result["format"] = form
    return Reply(body)


def _translated(error: Fields) -> Fields:
    """Returns an error with the type and the code that theirs has; one that theirs does not know stays as it is."""
    kind, code = error["type"], error["code"]
    if kind == "server_error":
        code = None
    elif kind == "invalid_request_error" and code not in OWN_CODES:
        kind, code = "BadRequestError", 400
    return {**error, "type": kind, "code": code}


def _error(status: int, error: Fields) -> Any:
    return {"error": _translated(error)}


def _in_session(error: Fields) -> Fields:
    """Returns what an error event has beside its message."""
    told = _translated(error)
    return {"error_type": told["type"], **given_fields({name: told[name] for name in ("param", "code")})}


SESSION = SessionRules(
    _ask_fields,
    _in_session,
    response_format="pcm",
    split_granularity="sentence",
    confirms=True,
    closes=True,
)
DIALECT = Dialect(
    rows=(
        Row("POST", SPEECH, ask=_ask_speech, event=_event, headers=_counts),
        Row("POST", f"{SPEECH}/batch", ask=_ask_batch, answer=_answer_batch),
        Row("GET", f"{SPEECH}/{{request_id}}", answer=_outcome, error=_no_outcome),
        Row("WS", f"{SPEECH}/stream"),
        Row("GET", VOICES, answer=_list_voices),
        *VOICE_ROWS,
        Row("POST", "/v1/chat/completions", reply=elsewhere(_error, "A chat")),
        Row("POST", "/generate", f"{ELSEWHERE}/generate", reply=elsewhere(_error, "Generation for training")),
    ),
    error=_error,
    session=partial(SegmentSession, SESSION),
)
