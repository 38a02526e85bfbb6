"""Kokoro-FastAPI's speech API."""

from __future__ import annotations

import json
import re
import zlib
from typing import Any

from rhapsode.audio.formats import FORMATS
from rhapsode.errors import InvalidRequest
from rhapsode.serve.dialects.dialect import Call, Dialect, Fields, Reply, Row
from rhapsode.serve.dialects.voices import given_fields
from rhapsode.serve.request.names import OPENAI_VOICES
from rhapsode.text.clean import well_formed
from rhapsode.text.front_end import FrontEnd, TextSettings
from rhapsode.text.spoken import SpokenRun
from rhapsode.voices.mix import is_mix, parse_mix, spell_mix

SPEECH, VOICES, MODELS = "/v1/audio/speech", "/v1/audio/voices", "/v1/models"
MODEL = "kokoro"
# A voice is named after its language and sex, as in af_heart: the language's letter is what `lang_code` is, too.
KOKORO_VOICE = re.compile(r"[abefhijpz][fm]_(?P<name>[a-z]+)")
LANGUAGES = {"a": "en", "b": "en", "e": "es", "f": "fr", "h": "hi", "i": "it", "j": "ja", "p": "pt", "z": "zh"}
MOST_PHONEMIZED_CHARS = 5000
NO_MIX = (
    "these voices cannot be mixed: uploaded voices can, by a model that takes a 'speaker_embedding'; "
    "of presets choose one."
)
ELSEWHERE = "/v1/dev"
"""Where routes without a path of ours lead: below `/v1`, so that keys are checked."""


def _ask_speech(fields: Fields, call: Call) -> Fields:
    fields = given_fields(fields)
    if fields.get("model") == MODEL:
        del fields["model"]
    if isinstance(voice := fields.get("voice"), str):
        fields |= _voice(voice, call)
        fields = given_fields(fields)
    if isinstance(code := fields.pop("lang_code", None), str):
        fields["language"] = LANGUAGES.get(code, code)
    options = fields.pop("normalization_options", None)
    if isinstance(options, dict) and isinstance(wanted := options.get("normalize"), bool):
        fields["normalise"] = wanted
    if fields.pop("ssml", None) is True:
        fields["input_type"] = "ssml"
    if fields.get("volume_multiplier") == 1:
        del fields["volume_multiplier"]
    for name in ("allow_voice_tags", "return_download_link", "return_timing"):
        if fields.get(name) is False:  # by default
            del fields[name]
    return fields


def _embedding_of(name: str) -> str:
    return f"{VOICES}/{name}/embedding"


def _mixed_voices(fields: Fields) -> list[str]:
    """Returns where the numbers of each voice of a mix are; nothing if it is no mix."""
    mix = fields.get("voice")
    if not isinstance(mix, str) or not is_mix(mix):
        return []
    names = list(parse_mix(mix))
    return [_embedding_of(name) for name in names if "/" not in name] if len(names) > 1 else []


def _alone(mix: str) -> str:
    """Returns the one voice of a mix; raises an error if it names several."""
    parts = parse_mix(mix)
    if len(parts) > 1:
        raise InvalidRequest(NO_MIX, param="voice")
    return next(iter(parts))


def _voice(mix: str, call: Call) -> Fields:
    """Returns the fields of a voice or of a mix: of presets, or of uploaded voices, whose numbers are added up."""
    parts = parse_mix(mix)
    if len(parts) == 1:
        return {"voice": _known(next(iter(parts)), call)}
    if all(name in call.voices for name in parts):
        return {"voice": spell_mix(parts)}  # our own route says whether this model mixes presets
    read = [call.read.get(_embedding_of(name)) for name in parts]
    vectors = [body["embedding"] for body in read if body is not None]
    if len(vectors) < len(parts) or len({len(vector) for vector in vectors}) > 1:
        raise InvalidRequest(NO_MIX, param="voice")
    weights = [weight / sum(parts.values()) for weight in parts.values()]
    mixed = [sum(w * x for w, x in zip(weights, numbers, strict=True)) for numbers in zip(*vectors, strict=True)]
    return {"voice": None, "speaker_embedding": mixed}


def _known(name: str, call: Call) -> str:
    """Returns the name of a voice that there is: this one, or this one without its language and gender. For an unknown
    name it is one of OpenAI's, the same each time."""
    found = KOKORO_VOICE.fullmatch(name)
    if found is None or name in call.voices:
        return name
    if found["name"] in call.voices:
        return found["name"]
    return OPENAI_VOICES[zlib.crc32(name.encode()) % len(OPENAI_VOICES)]  # which our own route maps to a voice


def _ask_captioned(fields: Fields, call: Call) -> Fields:
    """Returns a request for events with words; or for a whole file with words."""
    fields = _ask_speech(fields, call)
    fields["word_timestamps"] = fields.pop("return_timestamps", True)
    call.kept["format"] = fields.get("response_format", "mp3")
    return fields if fields.get("stream") is False else {**fields, "stream_format": "sse"}


def _answer_captioned(body: Any, call: Call) -> Reply:
    words = [_word(word) for word in body["words"]]
    return Reply({"audio": body["audio"], "audio_format": FORMATS[body["format"]].media_type, "timestamps": words})


def _caption_event(kind: str, data: bytes, call: Call) -> bytes | None:
    """Returns a line of JSON for each event with audio or words."""
    fields = json.loads(data)
    form = FORMATS[call.kept["format"]].media_type
    match kind:
        case "speech.audio.delta":
            return _line(fields["audio"], form, [])
        case "speech.audio.words":
            return _line("", form, [_word(word) for word in fields["words"]])
        case "error":
            return json.dumps(_error(500, fields["error"])).encode() + b"\n"
    return b""


def _line(audio: str, form: str, words: list[Fields]) -> bytes:
    return json.dumps({"audio": audio, "audio_format": form, "timestamps": words}).encode() + b"\n"


def _word(word: Fields) -> Fields:
    return {"word": word["word"], "start_time": word["start"], "end_time": word["end"]}


def _ask_dialogue(fields: Fields, call: Call) -> Fields:
    """Returns a dialogue of segments."""
    turns = fields.pop("turns", None) or fields.pop("inputs", None)
    pause = fields.pop("pause_between_turns", 0.0)
    fields = _ask_speech(fields, call)
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        return {**fields, "segments": turns}
    segments = []
    for at, turn in enumerate(turns):
        voice = turn.get("voice") or turn.get("voice_id")
        segment = {"input": turn.get("text"), "voice": _known(_alone(voice), call) if isinstance(voice, str) else voice}
        segments.append({**segment, "pause_s": pause if at else 0})
    return {**fields, "segments": segments}


def _list_voices(body: Any, call: Call) -> Reply:
    names = [voice["name"] for voice in body["voices"]]
    if "legacy=true" in call.query:
        return Reply({"voices": names})
    return Reply({"voices": [{"id": name, "name": name} for name in names]})


def _list_models(body: Any, call: Call) -> Reply:
    if not isinstance(body, dict):  # for a client of another protocol
        return Reply(body)
    same = {key: body["data"][0][key] for key in ("object", "created", "owned_by")}
    return Reply({**body, "data": [*body["data"], {"id": MODEL, **same}]})


def _phonemize(fields: Fields, call: Call) -> Reply:
    """Returns English text in phonemes; words that the lexicon lacks stay in letters."""
    text, language = fields.get("text"), fields.get("language", "a")
    if not isinstance(text, str) or not text or len(text) > MOST_PHONEMIZED_CHARS:
        raise InvalidRequest(f"'text' must have 1 to {MOST_PHONEMIZED_CHARS} characters.", param="text")
    if language not in ("a", "b"):
        raise InvalidRequest("there are phonemes for English only here: 'language' must be 'a'.", param="language")
    reader = FrontEnd(TextSettings(language="en", normalise=True, phonemes=True))
    runs = [*reader.push(well_formed(text)), *reader.close()]
    return Reply({"phonemes": "".join(run.text for run in runs if isinstance(run, SpokenRun)), "tokens": []})


def _refused(status: int, code: str, message: str) -> Reply:
    return Reply({"detail": {"error": code, "message": message, "type": "invalid_request_error"}}, status)


def _no_combination(fields: Fields, call: Call) -> Reply:
    return _refused(403, "permission_denied", "voices here are no files that could be combined: choose one of them.")


def _no_phonemes(fields: Fields, call: Call) -> Reply:
    return _refused(404, "not_found", "this server speaks text, not phonemes: respell words with 'lexicon'.")


def _error(status: int, error: Fields) -> Any:
    return {"detail": {"error": error["code"], "message": error["message"], "type": error["type"]}}


DIALECT = Dialect(
    rows=(
        Row("POST", SPEECH, ask=_ask_speech, needs=_mixed_voices),
        Row(
            "POST",
            "/dev/captioned_speech",
            SPEECH,
            ask=_ask_captioned,
            needs=_mixed_voices,
            answer=_answer_captioned,
            event=_caption_event,
            stream_type="application/json",
        ),
        Row("POST", "/dev/dialogue", SPEECH, ask=_ask_dialogue),
        Row("POST", "/dev/phonemize", f"{ELSEWHERE}/phonemize", reply=_phonemize),
        Row("POST", "/dev/generate_from_phonemes", f"{ELSEWHERE}/generate_from_phonemes", reply=_no_phonemes),
        Row("GET", VOICES, answer=_list_voices),
        Row("POST", f"{VOICES}/combine", reply=_no_combination),
        Row("GET", MODELS, answer=_list_models),
    ),
    error=_error,
)
