"""Mixes of voices: `one(2)+other(1)-third`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rhapsode.errors import InvalidRequest
from rhapsode.text.clean import well_formed

WEIGHTED = re.compile(r"(?P<name>[^()+]+)(?:\((?P<weight>[^()+]*)\))?")
# A minus takes a voice away if what follows is named after a language and a sex: other names may have one in them.
SIGNS = re.compile(r"(\+|-(?=[abefhijpz][fm]_))")
MOST_MIXED, MOST_MIX_CHARS, MOST_WEIGHT = 8, 1024, 1e6


def is_mix(voice: Any) -> bool:
    return isinstance(voice, str) and len(voice) <= MOST_MIX_CHARS and SIGNS.search(voice) is not None


def parts_of(mix: str) -> dict[str, float]:
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


def mixed(parts: Mapping[str, float], vectors: Sequence[Sequence[float]]) -> list[float]:
    """Returns the numbers of a mix: those of its voices, added up by weight."""
    if not (whole := sum(map(abs, parts.values()))):
        raise InvalidRequest("nothing is left of this mix: its voices are taken away again.", param="voice")
    weights = [weight / whole for weight in parts.values()]
    return [sum(w * x for w, x in zip(weights, numbers, strict=True)) for numbers in zip(*vectors, strict=True)]
