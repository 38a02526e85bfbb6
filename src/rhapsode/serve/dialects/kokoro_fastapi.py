"""Kokoro-FastAPI's speech API."""

from __future__ import annotations

import json
import re
import zlib
from typing import Any

from rhapsode.audio.formats import FORMATS
from rhapsode.errors import InvalidRequest
from rhapsode.serve.dialects.dialect import ELSEWHERE, Call, Dialect, Fields, Reply, Row
from rhapsode.serve.dialects.voices import given_fields
from rhapsode.serve.request.names import OPENAI_VOICES
from rhapsode.text.clean import well_formed
from rhapsode.text.front_end import FrontEnd, TextSettings
from rhapsode.text.spoken import SpokenRun

SPEECH, VOICES, MODELS = "/v1/audio/speech", "/v1/audio/voices", "/v1/models"
MODEL = "kokoro"
# A voice is named after its language and sex, as in af_heart: the language's letter is what `lang_code` is, too.
KOKORO_VOICE = re.compile(r"[abefhijpz][fm]_(?P<name>[a-z]+)")
LANGUAGES = {"a": "en", "b": "en", "e": "es", "f": "fr", "h": "hi", "i": "it", "j": "ja", "p": "pt", "z": "zh"}
WEIGHTED = re.compile(r"(?P<name>[^()+]+)(?:\((?P<weight>[^()+]*)\))?")
# A minus takes a voice away if what follows is named as Kokoro's voices are: other names may have one in them.
SIGNS = re.compile(r"(\+|-(?=[abefhijpz][fm]_))")
MOST_PHONEMIZED_CHARS = 5000
MOST_MIXED, MOST_MIX_CHARS, MOST_WEIGHT = 8, 1024, 1e6
MOST_TURNS, MOST_PAUSE_S = 1000, 60  # as many segments, and as long a pause, as our own route takes


def _ask_speech(fields: Fields, call: Call) -> Fields:
    fields = given_fields(fields)
    if fields.get("model") == MODEL:
        del fields["model"]
    call.kept["model"] = fields.get("model")
    if isinstance(voice := fields.get("voice"), str):
        fields |= _voice(voice, call)
        fields = given_fields(fields)
    if isinstance(code := fields.pop("lang_code", None), str):
        fields["language"] = LANGUAGES.get(code, code)
    options = fields.pop("normalization_options", None)
    if isinstance(options, dict):
        if isinstance(wanted := options.pop("normalize", None), bool):
            fields["normalise"] = wanted
        fields |= {f"normalization_options.{name}": value for name, value in options.items()}  # named as ignored
    if fields.pop("ssml", None) is True:
        fields["input_type"] = "ssml"
    if fields.get("volume_multiplier") == 1:
        del fields["volume_multiplier"]
    for name in ("allow_voice_tags", "return_download_link", "return_timing"):
        if fields.get(name) is False:  # by default
            del fields[name]
    return fields


def _parts(mix: str) -> dict[str, float]:
    """Returns the voices of a mix with their weights, which are below zero for voices that are taken away."""
    parts: dict[str, float] = {}
    if len(mix) > MOST_MIX_CHARS:
        raise InvalidRequest(f"a voice has at most {MOST_MIX_CHARS} characters.", param="voice")
    first, *rest = SIGNS.split(mix.replace(" ", ""), MOST_MIXED)
    for sign, part in [("+", first), *zip(rest[::2], rest[1::2], strict=True)]:
        found = WEIGHTED.fullmatch(part)
        weight = _weight(found["weight"]) if found else None
        if found is None or weight is None or well_formed(found["name"]) != found["name"]:  # no path can hold it
            shown = well_formed(mix[:64])
            right = f"write 'one(2)+other(1)', with at most {MOST_MIXED} voices"
            raise InvalidRequest(f"'{shown}' is no mix of voices: {right}.", param="voice")
        parts[found["name"]] = parts.get(found["name"], 0.0) + (weight if sign == "+" else -weight)
    return parts


def _weight(text: str | None) -> float | None:
    """Returns a weight, which is 1 if there is none; None if the text is no weight."""
    try:
        number = 1.0 if text is None else float(text)
    except ValueError:
        return None
    return number if 0 < number <= MOST_WEIGHT else None


def _embedding_of(name: str) -> str:
    return f"{VOICES}/{name}/embedding"


def _read_for(mixes: list[Any]) -> list[str]:
    """Returns what is to be read to speak with mixes: what the model can do, and the numbers of uploaded voices."""
    names = {name: None for mix in mixes if _is_mix(mix) for name in _parts(mix)}
    return [MODELS, *(_embedding_of(name) for name in names if "/" not in name)] if names else []


def _is_mix(voice: Any) -> bool:
    return isinstance(voice, str) and len(voice) <= MOST_MIX_CHARS and SIGNS.search(voice) is not None


def _needs(fields: Fields) -> list[str]:
    return _read_for([fields.get("voice")])


def _voice(mix: str, call: Call) -> Fields:
    """Returns the fields of a voice, or of a mix of uploaded voices, whose numbers are added up by weight."""
    parts = _parts(mix)
    read = [call.read.get(_embedding_of(name)) for name in parts]
    vectors = [body["embedding"] for body in read if body is not None]
    if len(parts) == 1 or len(vectors) < len(parts) or len({len(vector) for vector in vectors}) > 1:
        return {"voice": _name(mix, call)}
    if not (whole := sum(map(abs, parts.values()))):
        raise InvalidRequest("nothing is left of this mix: its voices are taken away again.", param="voice")
    weights = [weight / whole for weight in parts.values()]
    mixed = [sum(w * x for w, x in zip(weights, numbers, strict=True)) for numbers in zip(*vectors, strict=True)]
    return {"voice": None, "speaker_embedding": mixed}


def _name(mix: str, call: Call) -> str:
    """Returns a mix of presets as a model that mixes them takes it; of any other model, its heaviest voice."""
    parts = _parts(mix)
    if len(parts) == 1:
        return _known(next(iter(parts)), call)
    if min(parts.values()) > 0 and _mixes_presets(call):
        return "+".join(f"{_known(name, call)}({weight:g})" for name, weight in parts.items())
    call.told["X-Ignored-Fields"] = "voice"
    return _known(max(parts, key=lambda name: parts[name]), call)


def _mixes_presets(call: Call) -> bool:
    models = (call.read.get(MODELS) or {}).get("data", [])
    asked = [model for model in models if model["id"] == call.kept.get("model")] or models
    return bool(asked) and "mixes" in asked[0].get("capabilities", ())


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
    """Returns a request for events with words, or for JSON, which only a request for words is answered with."""
    fields = _ask_speech(fields, call)
    wanted, is_whole = fields.pop("return_timestamps", True), fields.get("stream") is False
    fields["word_timestamps"] = "auto" if wanted is True or (wanted is False and is_whole) else wanted
    call.kept = {"format": fields.get("response_format", "mp3"), "words": wanted}
    return fields if is_whole else {**fields, "stream_format": "sse"}


def _answer_captioned(body: Any, call: Call) -> Reply:
    words = [_word(word) for word in body["words"]] if call.kept["words"] else []
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


def _turns(fields: Fields) -> list[Fields] | None:
    turns = fields.get("turns") or fields.get("inputs")
    return turns if isinstance(turns, list) and all(isinstance(turn, dict) for turn in turns) else None


def _needs_of_dialogue(fields: Fields) -> list[str]:
    voices = (turn.get("voice") or turn.get("voice_id") for turn in (_turns(fields) or ())[:MOST_TURNS])
    return [MODELS] if any(map(_is_mix, voices)) else []  # a segment has a name, no numbers


def _ask_dialogue(fields: Fields, call: Call) -> Fields:
    """Returns a dialogue of segments."""
    turns, pause = _turns(fields), fields.pop("pause_between_turns", None)
    pause = 0.0 if pause is None else pause
    if isinstance(pause, bool) or not isinstance(pause, int | float) or not 0 <= pause <= MOST_PAUSE_S:
        raise InvalidRequest(
            f"'pause_between_turns' must be a number from 0 to {MOST_PAUSE_S}.", param="pause_between_turns"
        )
    fields = _ask_speech({name: value for name, value in fields.items() if name not in ("turns", "inputs")}, call)
    if turns is None:
        return {**fields, "segments": None}
    segments = []
    for at, turn in enumerate(turns[: MOST_TURNS + 1]):  # one too many is refused as well as a million are
        voice = turn.get("voice") or turn.get("voice_id")
        segment = {"input": turn.get("text"), "voice": _name(voice, call) if isinstance(voice, str) else voice}
        segments.append({**segment, "pause_s": pause if at else 0})
    return {**fields, "segments": segments}


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
    return _refused(403, "permission_denied", "here no file is made: speak with 'one(2)+other(1)' as it is.")


def _no_phonemes(fields: Fields, call: Call) -> Reply:
    return _refused(404, "not_found", "this server speaks text, not phonemes: respell words with 'lexicon'.")


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
        Row("POST", "/dev/generate_from_phonemes", f"{ELSEWHERE}/generate_from_phonemes", reply=_no_phonemes),
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
