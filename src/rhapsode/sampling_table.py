"""The table of sampling parameters. Slots, checks, the fields of the API, the page and the keywords follow from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypedDict

from rhapsode.ranges import Range


@dataclass(frozen=True)
class SamplingParameter:
    """One row of the table."""

    name: str
    kind: type[float] | type[int]
    """The type of its values, and of its column in the slot table."""
    range: Range
    default: float
    """The value if neither the request nor the talker sets one: it has no effect."""
    description: str
    """Its name in words, a colon, and what it does."""


PARAMETERS = (
    SamplingParameter(
        name="temperature",
        kind=float,
        range=Range(0, 10),
        default=1.0,
        description="Temperature: higher is livelier, lower is steadier. 0 is greedy everywhere.",
    ),
    SamplingParameter(
        name="top_k",
        kind=int,
        range=Range(0, 2**31 - 1),
        default=0,
        description="Top k: choose among so many of the likeliest. 0 is off.",
    ),
    SamplingParameter(
        name="top_p",
        kind=float,
        range=Range(0, 1, above=True),
        default=1.0,
        description="Top p: choose among the likeliest, up to this share of the probability. 1 is off.",
    ),
    SamplingParameter(
        name="repetition_penalty",
        kind=float,
        range=Range(0.1, 10),
        default=1.0,
        description="Repetition penalty: above 1, sounds repeat less. 1 is off.",
    ),
    SamplingParameter(
        name="min_p",
        kind=float,
        range=Range(0, 1),
        default=0.0,
        description="Min p: choose among those that are at least this likely, relative to the likeliest. 0 is off.",
    ),
)


@dataclass(frozen=True)
class Sampling:
    """Sampling parameters of the talker; `None` is the checkpoint's default."""

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float | None = None
    min_p: float | None = None

    def over(self, defaults: Sampling) -> Sampling:
        """Returns these parameters, with `defaults` in place of every `None`."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        return replace(defaults, **given) if given else defaults


class SamplingWishes(TypedDict, total=False):
    """The same as keywords."""

    temperature: float | None
    top_k: int | None
    top_p: float | None
    repetition_penalty: float | None
    min_p: float | None


WITHOUT_EFFECT = Sampling(**{parameter.name: parameter.default for parameter in PARAMETERS})  # type: ignore[arg-type]
