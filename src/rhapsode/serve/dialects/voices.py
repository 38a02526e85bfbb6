"""What vLLM-Omni and SGLang-Omni share: the routes of voices, and the fields that say whose voice it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rhapsode.serve.dialects.dialect import Call, Fields, Reply, Row
from rhapsode.serve.request.names import DEFAULT_VOICE

VOICES = "/v1/audio/voices"
NAMES = ("voice", "speaker")
MOST_NAME_CHARS = 256
"""A longer name is no voice's; our own route says so."""
MOST_ITEMS = 2**12
"""A batch of more has more fields than our own route reads."""
WAV_HEADER_BYTES, BYTES_PER_SAMPLE = 44, 2


def given_fields(fields: Fields) -> Fields:
    """Returns fields without those that are null, which mean nothing there."""
    return {name: value for name, value in fields.items() if value is not None}


def clone(fields: Fields) -> Fields:
    """Returns fields in which recordings, or an embedding, say whose voice it is; a name beside them does not count."""
    fields = given_fields(fields)
    if isinstance(vectors := fields.get("speaker_embedding"), list) and len(vectors) == 1:
        fields["speaker_embedding"] = vectors[0] if isinstance(vectors[0], list) else vectors
    if isinstance(recordings := fields.get("ref_audio"), list):
        del fields["ref_audio"]
        text = {"text": fields.pop("ref_text")} if "ref_text" in fields else {}
        fields["references"] = [{"audio": one, **(text if not at else {})} for at, one in enumerate(recordings)]
    if _has_sound(fields):
        fields = _unnamed(fields)
    task = fields.get("task_type")
    if task == "VoiceDesign":  # clients send a name all the same
        fields = _unnamed(fields)
    if task == "Base":  # any model here that clones does so without being told
        del fields["task_type"]
    return fields


def ask_batch(fields: Fields, ask: Callable[[Fields], Fields]) -> Fields:
    """Returns a batch whose shared voice is a field of those items that have no recording and no voice of their own.

    Only what is small is copied, and to no more items than there may be: a small body must not become a large one.
    """
    shared = {"response_format": "wav", **ask(fields)}
    if not isinstance(items := shared.get("items"), list) or len(items) > MOST_ITEMS:
        return shared
    named = {name: shared[name] for name in NAMES if _is_name(shared.get(name))}
    asked = [ask({**named, **item}) if isinstance(item, dict) else item for item in items]
    if _has_sound(shared):
        asked = [_unnamed(item) if isinstance(item, dict) else item for item in asked]
    return {**{name: value for name, value in shared.items() if name not in named}, "items": asked}


def _is_name(voice: Any) -> bool:
    """Returns whether this is a voice's name, bare or as its id."""
    if isinstance(voice, dict) and voice.keys() == {"id"}:
        voice = voice["id"]
    return isinstance(voice, str) and len(voice) <= MOST_NAME_CHARS


def _has_sound(fields: Fields) -> bool:
    return any(fields.get(name) for name in ("ref_audio", "references", "speaker_embedding"))


def _unnamed(fields: Fields) -> Fields:
    return {name: value for name, value in fields.items() if name not in NAMES}


def list_voices(body: Any, call: Call) -> Reply:
    own = [voice for voice in body["data"] if voice["kind"] != "alias"]
    uploaded = [_uploaded(voice) for voice in own if voice["kind"] == "uploaded"]
    return Reply({"voices": [DEFAULT_VOICE, *(voice["name"] for voice in own)], "uploaded_voices": uploaded})


def _uploaded(voice: Fields) -> Fields:
    """Returns an uploaded voice; its size is that of its recording as 16-bit WAV, or of its numbers."""
    samples = round(voice.get("duration_s", 0) * voice.get("sample_rate", 0))
    is_audio = "embedding_size" not in voice
    size = WAV_HEADER_BYTES + BYTES_PER_SAMPLE * samples if is_audio else 4 * voice.get("embedding_size", 0)
    known = given_fields({name: voice.get(name) for name in ("name", "consent", "created_at", "speaker_description")})
    kind = {"mime_type": "audio/wav" if is_audio else "application/x-safetensors", "file_size": size}
    source = {"ref_text": voice.get("text"), "embedding_source": "audio" if is_audio else "direct"}
    return {**known, **kind, **given_fields(source), "embedding_dim": voice.get("embedding_size")}


def _stored(body: Any, call: Call) -> Reply:
    """Returns the voice under its name, as vLLM-Omni does, and bare, as SGLang-Omni does."""
    voice = _uploaded(body)
    told = {"warning": f"Voice '{voice['name']}' overwritten"} if body.get("replaced") else {}
    return Reply({"success": True, "voice": voice, **voice, **told})


def deleted(body: Any, call: Call) -> Reply:
    return Reply({"success": True, "message": f"Voice '{call.params['voice']}' deleted successfully"})


def _not_deleted(status: int, error: Fields) -> Any:
    return {"success": False, "error": error["message"]}


def elsewhere(error: Callable[[int, Fields], Any], what: str) -> Callable[[Fields, Call], Reply]:
    """Returns the answer of a route of another product."""
    message = f"{what} is another product: this server speaks texts. Send the text to /v1/audio/speech."
    told = {"message": message, "type": "invalid_request_error", "param": None, "code": "not_found"}
    return lambda fields, call: Reply(error(404, told), 404)


VOICE_ROWS = (
    Row("GET", VOICES, answer=list_voices),
    Row("POST", VOICES, f"{VOICES}?replace=true", answer=_stored),
    Row("DELETE", f"{VOICES}/{{voice}}", answer=deleted, error=_not_deleted),
)
