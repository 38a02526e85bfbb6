"""Mixes of voices by weight, as users of Kokoro servers write them: `one(2)+other(1)`, or `one,other`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from rhapsode.errors import InvalidRequest

MOST_VOICES, MOST_CHARS = 8, 1024
_PART = re.compile(r"(?P<name>[^()+,]+)(?:\((?P<weight>[^()+,]*)\))?")
_BETWEEN = re.compile(r"[+,]")


def is_mix(name: str) -> bool:
    """Returns whether a name is written as a mix: it has a sign between voices, or a weight."""
    return len(name) <= MOST_CHARS and any(sign in name for sign in "+,(")


def parse_mix(mix: str) -> dict[str, float]:
    """Returns the voices of a mix with their weights. A voice without a weight has 1; one that comes twice, the sum."""
    parts: dict[str, float] = {}
    for part in _BETWEEN.split(mix.replace(" ", ""), MOST_VOICES):
        found = _PART.fullmatch(part)
        weight = _weight(found["weight"]) if found else None
        if found is None or weight is None:
            shown = mix[:64].encode(errors="replace").decode()
            right = f"write 'one(2)+other(1)', with at most {MOST_VOICES} voices"
            raise InvalidRequest(f"'{shown}' is no mix of voices: {right}.", param="voice")
        parts[found["name"]] = parts.get(found["name"], 0.0) + weight
    return parts


def spell_mix(parts: Mapping[str, float]) -> str:
    """Returns a mix in its one spelling; of a single voice, its name."""
    if len(parts) == 1:
        return next(iter(parts))
    return "+".join(f"{name}({weight:g})" for name, weight in parts.items())


def _weight(text: str | None) -> float | None:
    """Returns a weight, which is 1 if there is none; None if the text is no weight."""
    try:
        number = 1.0 if text is None else float(text)
    except ValueError:
        return None
    return number if 0 < number < math.inf else None
