"""The voices that a request names: as Kokoro's are named, as mixes, or by aliases of its own."""

from __future__ import annotations

import re
import zlib
from typing import Any
from urllib.parse import parse_qsl

from rhapsode.errors import InvalidRequest
from rhapsode.serve.dialects.dialect import Call, Fields
from rhapsode.serve.dialects.mixes import is_mix, mixed, parts_of
from rhapsode.serve.request.names import OPENAI_VOICES

VOICES, MODELS = "/v1/audio/voices", "/v1/models"
# A voice is named after its language and sex, as in af_heart.
KOKORO_VOICE = re.compile(r"[abefhijpz][fm]_(?P<name>[a-z]+)")
MOST_ALIASES = 256
MIN_SPEED, MAX_SPEED = 0.25, 4.0


class VoiceNames:
    """Finds the voices of one request."""

    def __init__(self, fields: Fields, call: Call) -> None:
        self._call = call
        self._aliases = aliases_of(fields)

    def resolved(self, name: str) -> str:
        """Returns a name, or what it is an alias of."""
        return self._aliases.get(name.strip().casefold(), (name, 1.0))[0]

    def rate(self, name: str | None) -> float:
        """Returns the pace that an alias has."""
        return 1.0 if name is None else self._aliases.get(name.strip().casefold(), (name, 1.0))[1]

    @property
    def has_rates(self) -> bool:
        return any(rate != 1 for _, rate in self._aliases.values())

    def fields(self, name: str) -> Fields:
        """Returns the fields of a voice, or of a mix of uploaded voices, whose numbers are added up by weight."""
        mix = self.resolved(name)
        parts = parts_of(mix)
        read = [self._call.read.get(embedding_of(part)) for part in parts]
        vectors = [body["embedding"] for body in read if body is not None]
        if len(parts) == 1 or len(vectors) < len(parts) or len({len(vector) for vector in vectors}) > 1:
            return {"voice": self.name(mix)}
        return {"speaker_embedding": mixed(parts, vectors)}

    def name(self, name: str) -> str:
        """Returns a mix of presets as a model that mixes them takes it; of any other model, its heaviest voice."""
        parts = parts_of(self.resolved(name))
        if len(parts) == 1:
            return self._known(next(iter(parts)))
        if min(parts.values()) > 0 and "mixes" in model_of(self._call).get("capabilities", ()):
            return "+".join(f"{self._known(part)}({weight:g})" for part, weight in parts.items())
        self._call.told["X-Ignored-Fields"] = "voice"
        return self._known(max(parts, key=lambda part: parts[part]))

    def _known(self, name: str) -> str:
        """Returns the name of a voice that there is: this one, or this one without its language and sex. For an unknown
        name it is one of OpenAI's, the same each time."""
        found = KOKORO_VOICE.fullmatch(name)
        if found is None or name in self._call.voices:
            return name
        if found["name"] in self._call.voices:
            return found["name"]
        # Our own route maps these to a voice that is here; a preset of such a name may have to be downloaded first.
        others = [one for one in OPENAI_VOICES if one not in self._call.voices] or OPENAI_VOICES
        return others[zlib.crc32(name.encode()) % len(others)]


def aliases_of(fields: Fields) -> dict[str, tuple[str, float]]:
    """Returns the voice and the pace of each alias that a request brings, by its name in any case."""
    given = fields.get("voice_aliases") or {}
    right = f"'voice_aliases' has up to {MOST_ALIASES} names with a voice, or with 'voice' and 'rate', each."
    if not isinstance(given, dict) or len(given) > MOST_ALIASES:
        raise InvalidRequest(right, param="voice_aliases")
    found: dict[str, tuple[str, float]] = {}
    for name, target in given.items():
        voice, rate = (target.get("voice"), target.get("rate")) if isinstance(target, dict) else (target, None)
        rate = 1.0 if rate is None else rate
        is_rate = isinstance(rate, int | float) and not isinstance(rate, bool) and MIN_SPEED <= rate <= MAX_SPEED
        if not isinstance(voice, str) or not is_rate:
            raise InvalidRequest(right, param="voice_aliases")
        found[name.strip().casefold()] = (voice, float(rate))
    return found


def embedding_of(name: str) -> str:
    return f"{VOICES}/{name}/embedding"


def needs_of(fields: Fields) -> list[str]:
    """Returns what is to be read to speak with the request's voice: for a mix, what the model can do, and the numbers
    of uploaded voices. It costs little: it runs where all requests are served."""
    voice = fields.get("voice")
    mix = aliases_of(fields).get(voice.strip().casefold(), (voice, 1.0))[0] if isinstance(voice, str) else None
    names = parts_of(mix) if mix is not None and is_mix(mix) else ()
    return [MODELS, *(embedding_of(name) for name in names if "/" not in name)] if names else []


def model_of(call: Call) -> Fields:
    """Returns what is known of the model that is asked for, or of the first one; nothing if that was not read."""
    models = (call.read.get(MODELS) or {}).get("data", [])
    wanted = call.kept.get("model") or dict(parse_qsl(call.query)).get("model")
    found: list[Any] = [model for model in models if model["id"] == wanted] or models
    return found[0] if found else {}
