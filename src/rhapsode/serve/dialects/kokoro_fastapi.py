"""Kokoro-FastAPI's speech API."""

from __future__ import annotations

import json
from bisect import bisect
from typing import Any

from rhapsode.audio.formats import FORMATS
from rhapsode.errors import InvalidRequest
from rhapsode.serve.dialects.dialect import ELSEWHERE, Call, Dialect, Fields, Reply, Row
from rhapsode.serve.dialects.mixes import is_mix
from rhapsode.serve.dialects.sounds import SOUNDS, phonemes, with_sounds
from rhapsode.serve.dialects.ssml_tags import tagged
from rhapsode.serve.dialects.voice_names import MODELS, VOICES, VoiceNames, model_of, needs_of
from rhapsode.serve.dialects.voiced_text import LANGUAGES, MOST_TURNS, read_text, read_turns
from rhapsode.serve.dialects.voices import given_fields
from rhapsode.serve.request.names import DEFAULT_VOICE

SPEECH = "/v1/audio/speech"
MODEL = "kokoro"
MOST_PHONEMIZED_CHARS, MOST_SSML_CHARS = 5000, 100_000
VOICE_TAG, VOICE_ELEMENT = "[voice:", "<voice"


def _ask_fields(fields: Fields, call: Call) -> tuple[Fields, VoiceNames]:
    """Returns the fields of a request without those that mean what they do by default, and its voices."""
    fields = given_fields(fields)
    if fields.get("model") == MODEL:
        del fields["model"]
    call.kept["model"] = fields.get("model")
    names = VoiceNames(fields, call)
    fields.pop("voice_aliases", None)
    if fields.pop("ssml", None) is True:
        fields["input_type"] = "ssml"
    if "volume_multiplier" in fields:
        fields["volume"] = fields.pop("volume_multiplier")
    if fields.get("return_download_link") is True:
        call.told["X-Download-Status"] = "unavailable"
    for name in ("return_download_link", "return_timing"):
        if fields.get(name) is False:  # by default
            del fields[name]
    return fields, names


def _ask_speech(fields: Fields, call: Call) -> Fields:
    fields, names = _ask_fields(fields, call)
    has_voices, voice = fields.pop("allow_voice_tags", None) is True, fields.get("voice")
    if isinstance(voice, str):
        del fields["voice"]
        fields |= names.fields(voice)
    first = voice if isinstance(voice, str) else None
    told = _told_sounds(fields, call, names.resolved(first) if first else "")
    fields, voices = read_text(fields, names, first, has_voices=has_voices)
    call.kept["voices"] = voices if has_voices else []
    return {**fields, **told}


def _told_sounds(fields: Fields, call: Call, voice: str) -> Fields:
    """Returns phonemes for an English text with words that have sounds, if the model takes phonemes."""
    text, code = fields.get("input"), fields.get("lang_code") or voice[:1]
    if not isinstance(text, str) or SOUNDS not in text or "phonemes" not in model_of(call).get("options", {}):
        return {}
    is_english = isinstance(code, str) and LANGUAGES.get(code, "en") == "en"
    is_told = is_english and fields.get("input_type") != "ssml"
    said = with_sounds(text, is_british=code == "b") if is_told else None
    return {} if said is None else {"phonemes": said}


def _needs(fields: Fields) -> list[str]:
    text, is_ssml = fields.get("input"), fields.get("ssml") is True
    has_tags = is_ssml or fields.get("allow_voice_tags") is True
    has_voices = has_tags and isinstance(text, str) and (VOICE_ELEMENT if is_ssml else VOICE_TAG) in text.lower()
    has_sounds = isinstance(text, str) and SOUNDS in text
    return needs_of(fields) or ([MODELS] if has_voices or has_sounds else [])


def _ask_captioned(fields: Fields, call: Call) -> Fields:
    """Returns a request for events with words, or for JSON, which only a request for words is answered with."""
    fields = _ask_speech(fields, call)
    wanted, is_whole = fields.pop("return_timestamps", True), fields.get("stream") is False
    fields["word_timestamps"] = "auto" if wanted is True or (wanted is False and is_whole) else wanted
    call.kept |= {"format": fields.get("response_format", "mp3"), "words": wanted}
    return fields if is_whole else {**fields, "stream_format": "sse"}


def _answer_captioned(body: Any, call: Call) -> Reply:
    words = [_word(word, call) for word in body["words"]] if call.kept["words"] else []
    return Reply({"audio": body["audio"], "audio_format": FORMATS[body["format"]].media_type, "timestamps": words})


def _caption_event(kind: str, data: bytes, call: Call) -> bytes | None:
    """Returns a line of JSON for each event with audio or words."""
    fields = json.loads(data)
    form = FORMATS[call.kept["format"]].media_type
    match kind:
        case "speech.audio.delta":
            return _line(fields["audio"], form, [])
        case "speech.audio.words":
            return _line("", form, [_word(word, call) for word in fields["words"]])
        case "error":
            return json.dumps(_error(500, fields["error"])).encode() + b"\n"
    return b""


def _line(audio: str, form: str, words: list[Fields]) -> bytes:
    return json.dumps({"audio": audio, "audio_format": form, "timestamps": words}).encode() + b"\n"


def _word(word: Fields, call: Call) -> Fields:
    """Returns a word with its times, and with its voice where the text may have tags of voices."""
    told = {"word": word["word"], "start_time": word["start"], "end_time": word["end"]}
    if voices := call.kept.get("voices"):
        told["voice"] = voices[bisect(voices, word["from"], key=lambda one: one[0]) - 1][1]
    return given_fields(told)


def _turns(fields: Fields) -> list[Fields] | None:
    turns = fields.get("turns") or fields.get("inputs")
    return turns if isinstance(turns, list) and all(isinstance(turn, dict) for turn in turns) else None


def _needs_of_dialogue(fields: Fields) -> list[str]:
    turns = (_turns(fields) or ())[:MOST_TURNS]
    voices = (turn.get("voice") or turn.get("voice_id") for turn in turns)
    texts = (turn.get("text") for turn in turns)
    has_tags = any(isinstance(text, str) and VOICE_TAG in text.lower() for text in texts)
    return [MODELS] if has_tags or fields.get("voice_aliases") or any(map(is_mix, voices)) else []


def _ask_dialogue(fields: Fields, call: Call) -> Fields:
    """Returns a dialogue of segments."""
    turns = _turns(fields)
    fields, names = _ask_fields(
        {name: value for name, value in fields.items() if name not in ("turns", "inputs")}, call
    )
    pause = fields.pop("pause_between_turns", None)
    return {**fields, "segments": None} if turns is None else read_turns(fields, turns, pause, names)


def _ask_phonemes(fields: Fields, call: Call) -> Fields:
    """Returns a request for phonemes, by a model that has an option for them."""
    given, voice = fields.get("phonemes"), fields.get("voice")
    if "phonemes" not in model_of(call).get("options", {}):
        raise InvalidRequest("this model speaks text, not phonemes: respell words with 'lexicon'.", param="phonemes")
    if not isinstance(given, str) or not given.strip():
        raise InvalidRequest("'phonemes' must be a text that is not empty.", param="phonemes")
    named = {"voice": VoiceNames({}, call).name(voice)} if isinstance(voice, str) else {"voice": voice}
    return {"input": given, "phonemes": given, "normalise": False, "response_format": "wav", **named}


def _needs_of_phonemes(fields: Fields) -> list[str]:
    return [MODELS]


def _list_voices(body: Any, call: Call) -> Reply:
    names = [voice["name"] for voice in body["voices"]]
    if "legacy=true" in call.query:
        return Reply({"voices": names})
    return Reply({"voices": [{"id": name, "name": name} for name in names]})


def _model(body: Any, call: Call) -> Reply:
    return Reply({**body, "id": MODEL})


def _health(body: Any, call: Call) -> Reply:
    return Reply({"status": "healthy"})


def _list_models(body: Any, call: Call) -> Reply:
    if not isinstance(body, dict):  # for a client of another protocol
        return Reply(body)
    same = {key: body["data"][0][key] for key in ("object", "created", "owned_by")}
    return Reply({**body, "data": [*body["data"], {"id": MODEL, **same}]})


def _phonemize(fields: Fields, call: Call) -> Reply:
    """Returns a text in phonemes, as the models of this kind speak it."""
    text, code = fields.get("text"), fields.get("language", "a")
    if not isinstance(text, str) or not text or len(text) > MOST_PHONEMIZED_CHARS:
        raise InvalidRequest(f"'text' must have 1 to {MOST_PHONEMIZED_CHARS} characters.", param="text")
    if not isinstance(code, str) or code not in LANGUAGES:
        raise InvalidRequest(f"'language' must be one of {', '.join(LANGUAGES)}.", param="language")
    return Reply({"phonemes": phonemes(text, LANGUAGES[code], is_british=code == "b"), "tokens": []})


def _translate_ssml(fields: Fields, call: Call) -> Reply:
    """Returns SSML as a text with tags."""
    text, voice = fields.get("text"), fields.get("voice")
    if not isinstance(text, str) or len(text) > MOST_SSML_CHARS:
        raise InvalidRequest(f"'text' must have up to {MOST_SSML_CHARS} characters.", param="text")
    return Reply({"text": tagged(text, voice if isinstance(voice, str) and voice else DEFAULT_VOICE)})


def _refused(status: int, code: str, message: str) -> Reply:
    return Reply({"detail": {"error": code, "message": message, "type": "invalid_request_error"}}, status)


def _no_combination(fields: Fields, call: Call) -> Reply:
    return _refused(403, "permission_denied", "here no file is made: speak with 'one(2)+other(1)' as it is.")


def _no_unloading(fields: Fields, call: Call) -> Reply:
    return _refused(403, "permission_denied", "clients unload no models here: 'server.idle_unload_s' does.")


def _no_download(fields: Fields, call: Call) -> Reply:
    return _refused(404, "not_found", "nothing is stored here: the answer of a request is the whole audio.")


def _error(status: int, error: Fields) -> Any:
    return {"detail": {"error": error["code"], "message": error["message"], "type": error["type"]}}


DIALECT = Dialect(
    rows=(
        Row("POST", SPEECH, ask=_ask_speech, needs=_needs),
        Row(
            "POST",
            "/dev/captioned_speech",
            SPEECH,
            ask=_ask_captioned,
            needs=_needs,
            answer=_answer_captioned,
            event=_caption_event,
            stream_type="application/json",
        ),
        Row("POST", "/dev/dialogue", SPEECH, ask=_ask_dialogue, needs=_needs_of_dialogue),
        Row("POST", "/dev/phonemize", f"{ELSEWHERE}/phonemize", reply=_phonemize),
        Row("POST", "/dev/generate_from_phonemes", SPEECH, ask=_ask_phonemes, needs=_needs_of_phonemes),
        Row("POST", "/dev/ssml", f"{ELSEWHERE}/ssml", reply=_translate_ssml),
        Row("GET", VOICES, answer=_list_voices),
        Row("POST", f"{VOICES}/combine", reply=_no_combination),
        Row("GET", MODELS, answer=_list_models),
        Row("GET", f"{MODELS}/{MODEL}", f"{MODELS}/tts-1", answer=_model),
        Row("GET", "/health", answer=_health),
        Row("POST", "/dev/unload", f"{ELSEWHERE}/unload", reply=_no_unloading),
        Row("GET", "/v1/download/{name}", reply=_no_download),
    ),
    error=_error,
)
