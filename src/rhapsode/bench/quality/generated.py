"""Generates any number of prompts from templates and a seed, to find failures too rare for a written list."""

from __future__ import annotations

import random
from collections.abc import Callable

from rhapsode.bench.quality.prompts import SpokenPrompt

WORDS = {
    "person": "Anna Brian Carla Dominic Elena Frank Grace Hugo Irene Jonas Karen Leon Martha Nathan Olga Paul Rosa",
    "place": "Athens Bristol Cairo Dublin Geneva Hamburg Kyoto Lima Milan Nairobi Oslo Prague Quebec Sydney Warsaw",
    "thing": "basket blanket bottle camera candle hammer ladder lantern letter mirror needle pencil suitcase",
    "many": "apples bricks buttons chairs cups feathers flowers keys maps nails pears plates shells stamps tickets",
    "like": "bright broken clean crooked gentle heavy narrow noisy plain quiet rusty smooth tiny wooden",
    "room": "attic basement cellar garage garden hallway kitchen library office shed stable studio workshop",
    "did": "borrowed carried cleaned dropped found lost measured painted repaired returned sold washed wrapped",
    "day": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "month": "January February March April May June July August September October November December",
    "why": "because it was raining|since nobody else wanted to|before anyone noticed|although it was late"
    "|when the bell rang|as soon as the door opened|while the others slept|without saying a word",
}
NUMBERS: dict[str, Callable[[random.Random], str]] = {
    "small": lambda draw: str(draw.randint(2, 19)),
    "count": lambda draw: f"{draw.choice([draw.randint(20, 999), 1000 * draw.randint(1, 90)]):,}",
    "price": lambda draw: f"${draw.randint(1, 99)}.{draw.randint(10, 99)}",
    "percent": lambda draw: f"{draw.randint(2, 99)}%",
    "time": lambda draw: f"{draw.randint(1, 12)}:{draw.randint(10, 59)}",
    "date": lambda draw: str(draw.randint(1, 28)),
    "year": lambda draw: str(draw.choice([draw.randint(1801, 1999), draw.randint(2010, 2030)])),
}
TEMPLATES = {
    "short": ("Yes.", "No, thank you.", "{person}?", "Stop!", "On {day}.", "A {like} {thing}.", "Not in {place}!"),
    "statement": (
        "{person} {did} the {like} {thing} in the {room}.",
        "The {many} in the {room} were {like} and {like}.",
        "{person} {did} the {thing} {why}.",
    ),
    "question": (
        "Did {person} leave the {thing} in the {room}?",
        "Why is the {room} so {like} on {day}?",
        "Who {did} the {many} from {place}?",
    ),
    "exclamation": ("What a {like} {thing}!", "{person}, put down the {thing}!", "How {like} the {room} is today!"),
    "numbers": (
        "{person} paid {price} for {small} {many}.",
        "The train to {place} leaves at {time} on {day}.",
        "In {year} there were {count} {many} in {place}.",
        "On {month} {date}, {percent} of the {many} were {did}.",
    ),
    "list": (
        "We packed {many}, {many}, a {thing}, and {small} {many}.",
        "{place}, {place}, {place}, and {place} are far from here.",
    ),
    "long": (
        "{person} {did} the {like} {thing} {why}, and then {person} {did} the {many} that had been left in the {room} "
        "of the {like} house in {place}.",
        "On {day} the {room} was {like}. {person} {did} a {like} {thing}, {person} {did} the {many}, and {why}, "
        "everyone went home to {place}.",
    ),
}


def generate(count: int, seed: int) -> tuple[SpokenPrompt, ...]:
    """Returns `count` prompts, one of each kind in turn. The same seed gives the same prompts."""
    draw = random.Random(seed)
    kinds = list(TEMPLATES)
    return tuple(
        SpokenPrompt(f"generated-{number + 1}", _write(kind, draw), kind=kind)
        for number, kind in ((number, kinds[number % len(kinds)]) for number in range(count))
    )


def _write(kind: str, draw: random.Random) -> str:
    text = draw.choice(TEMPLATES[kind])
    while "{" in text:
        name = text[text.index("{") + 1 : text.index("}")]
        text = text.replace(f"{{{name}}}", _word(name, draw), 1)
    return text


def _word(name: str, draw: random.Random) -> str:
    if name in NUMBERS:
        return NUMBERS[name](draw)
    return draw.choice(WORDS[name].split("|" if "|" in WORDS[name] else None))
