"""The text of a request, with its tags and its options of normalisation, as fields of ours."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from rhapsode.errors import InvalidRequest
from rhapsode.serve.dialects.as_written import as_written
from rhapsode.serve.dialects.dialect import Fields
from rhapsode.serve.dialects.ssml_tags import is_ours, tagged
from rhapsode.serve.dialects.tags import TAG, Passage, passages
from rhapsode.serve.dialects.voice_names import MAX_SPEED, MIN_SPEED, VoiceNames
from rhapsode.serve.request.names import DEFAULT_VOICE

LANGUAGES = {"a": "en", "b": "en", "e": "es", "f": "fr", "h": "hi", "i": "it", "j": "ja", "p": "pt", "z": "zh"}
"""By the first letter of a voice, which is what `lang_code` is, too."""
MOST_TURNS, MOST_PAUSE_S = 1000, 60  # as many segments, and as long a pause, as our own route takes
PLURAL, PLURALS = re.compile(r"(?<=\w)\(s\)"), "optional_pluralization_normalization"
AS_WRITTEN = {
    "url_normalization": "url",
    "email_normalization": "email",
    "phone_normalization": "phone",
    "unit_normalization": "unit",
    "replace_remaining_symbols": "symbol",
}
"""What stays as it is written where an option is false. All of it is read out otherwise."""


def read_options(fields: Fields, texts: Sequence[str]) -> list[str]:
    """Translates the fields that say how texts are read; returns the texts, changed where that is how."""
    if isinstance(code := fields.pop("lang_code", None), str):
        fields["language"] = LANGUAGES.get(code, code)
    options = fields.pop("normalization_options", None)
    options = dict(options) if isinstance(options, dict) else {}
    if isinstance(wanted := options.pop("normalize", None), bool):
        fields["normalise"] = wanted
    is_plural = options.pop(PLURALS, True) is not False and wanted is not False
    off = [name for name in AS_WRITTEN if options.get(name) is False]
    entries = as_written("\n".join(texts), [AS_WRITTEN[name] for name in off]) if off else {}
    if entries:
        fields["lexicon"] = entries
    obeyed = [
        name for name in AS_WRITTEN if isinstance(options.get(name), bool) and not (entries is None and name in off)
    ]
    others = {name: value for name, value in options.items() if name not in obeyed}
    fields |= {f"normalization_options.{name}": value for name, value in others.items()}  # named as ignored
    is_english = fields.get("language") in (None, "en")
    return [PLURAL.sub("s", text) for text in texts] if is_plural and is_english else list(texts)


def read_text(
    fields: Fields, names: VoiceNames, voice: str | None, *, has_voices: bool
) -> tuple[Fields, list[tuple[int, str | None]]]:
    """Returns the fields of a text whose tags are obeyed: as SSML, in segments where the voice changes; and where each
    voice begins, as words are located: segments are joined by line breaks."""
    first = None if voice is None else names.resolved(voice)
    text, rate = fields.get("input"), names.rate(voice)
    if isinstance(text, str) and fields.get("input_type") == "ssml" and not is_ours(text):
        del fields["input_type"]
        fields["input"], has_voices = tagged(text, voice or DEFAULT_VOICE), True
        text = fields["input"]
    if isinstance(text, str):
        fields["input"] = text = read_options(fields, [text])[0]
    if not isinstance(text, str) or fields.get("input_type") == "ssml" or not TAG.search(text):
        speed = fields.get("speed", 1.0)
        if rate != 1 and isinstance(speed, int | float):
            fields["speed"] = min(MAX_SPEED, max(MIN_SPEED, speed * rate))
        return fields, [(0, first)]
    found = passages(text, lambda name: rate if name is None else names.rate(name), has_voices=has_voices)
    del fields["input"]
    if len(found) == 1 and found[0].voice is None:
        return {**fields, "input": found[0].document(with_pause=True), "input_type": "ssml"}, [(0, first)]
    segments = [_segment(one, names, one.pause_s) for one in found]
    ends = accumulate(len(segment["input"]) + 1 for segment in segments)
    voices = (first if one.voice is None else names.resolved(one.voice) for one in found)
    return {**fields, "input_type": "ssml", "segments": segments}, list(zip((0, *ends), voices, strict=False))


def read_turns(fields: Fields, turns: Sequence[Fields], pause: Any, names: VoiceNames) -> Fields:
    """Returns the fields of a dialogue: a segment for each turn, and for each voice that its tags name."""
    pause = 0.0 if pause is None else pause
    if isinstance(pause, bool) or not isinstance(pause, int | float) or not 0 <= pause <= MOST_PAUSE_S:
        raise InvalidRequest(
            f"'pause_between_turns' must be a number from 0 to {MOST_PAUSE_S}.", param="pause_between_turns"
        )
    turns = turns[: MOST_TURNS + 1]  # one too many is refused as well as a million are
    given = [turn.get("text") for turn in turns]
    read = iter(read_options(fields, [text for text in given if isinstance(text, str)]))
    texts = [next(read) if isinstance(text, str) else text for text in given]
    is_tagged = any(isinstance(text, str) and (names.has_rates or TAG.search(text)) for text in texts)
    segments: list[Fields] = []
    for turn, text in zip(turns, texts, strict=True):
        voice = turn.get("voice") or turn.get("voice_id")
        first = pause if segments else 0
        if not is_tagged or not isinstance(text, str) or not isinstance(voice, str | None):
            named = names.name(voice) if isinstance(voice, str) else voice
            segments.append({"input": text, "voice": named, "pause_s": first})
            continue
        for one in passages(text, names.rate, voice, has_voices=True):
            segments.append(_segment(one, names, one.pause_s + first))
            first = 0
        if len(segments) > MOST_TURNS:
            break
    return {**fields, **({"input_type": "ssml"} if is_tagged else {}), "segments": segments}


def _segment(passage: Passage, names: VoiceNames, pause_s: float) -> Fields:
    voice = {} if passage.voice is None else {"voice": names.name(passage.voice)}
    return {"input": passage.document(), **voice, "pause_s": pause_s}
