"""Sentence templates and their fillers: numbers as people write them, names, places, times."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

Fill = Callable[[random.Random], str]

FIRST = """James Mary Robert Patricia John Jennifer Michael Linda David Elizabeth William Barbara Richard Susan Joseph
Jessica Thomas Sarah Charles Karen Christopher Lisa Daniel Nancy Matthew Betty Anthony Sandra Mark Margaret Donald
Ashley Steven Kimberly Andrew Emily Paul Donna Joshua Michelle Kenneth Carol Kevin Amanda Brian Melissa George Deborah
Timothy Stephanie Ronald Rebecca Jason Laura Edward Helen Jeffrey Sharon Ryan Cynthia Jacob Kathleen Gary Amy Nicholas
Angela Eric Shirley Jonathan Anna Stephen Brenda Larry Pamela Justin Emma Scott Nicole Brandon Samantha Benjamin
Katherine Samuel Christine Gregory Rachel Alexander Olivia Patrick Maria Frank Heather Raymond Diane Jack Julie Dennis
Joyce Jerry Victoria Tyler Kelly Aaron Christina Jose Joan Adam Evelyn Nathan Lauren Henry Judith Zachary Megan Peter
Sophie Kyle Grace Ethan Alice Walter Hannah Noah Julia Jeremy Amelia Lucas Chloe Oscar Ella Leo Isabel Hugo Nora Max
Clara Felix Lucy Theo Ruth Simon Eva Martin Irene Omar Fatima Ivan Ingrid Carlos Elena Pablo Lucia Marco Giulia Yuki
Kenji Priya Raj Mei Wei""".split()
LAST = """Smith Johnson Williams Brown Jones Garcia Miller Davis Rodriguez Martinez Hernandez Lopez Gonzalez Wilson
Anderson Thomas Taylor Moore Jackson Martin Lee Perez Thompson White Harris Sanchez Clark Ramirez Lewis Robinson Walker
Young Allen King Wright Scott Torres Nguyen Hill Flores Green Adams Nelson Baker Hall Rivera Campbell Mitchell Carter
Roberts Gomez Phillips Evans Turner Diaz Parker Cruz Edwards Collins Reyes Stewart Morris Morales Murphy Cook Rogers
Gutierrez Ortiz Morgan Cooper Peterson Bailey Reed Kelly Howard Ramos Kim Cox Ward Richardson Watson Brooks Chavez Wood
James Bennett Gray Mendoza Ruiz Hughes Price Alvarez Castillo Sanders Patel Myers Long Ross Foster Jimenez Okafor
Schmidt Fischer Novak Rossi Tanaka Kowalski Ivanov Silva Murray O'Brien MacDonald Fitzgerald""".split()
PLACES = """London|Paris|New York|Chicago|Boston|Seattle|Denver|Austin|Toronto|Sydney|Melbourne|Dublin|Edinburgh|Berlin
Madrid|Rome|Vienna|Prague|Lisbon|Amsterdam|Stockholm|Oslo|Helsinki|Athens|Cairo|Nairobi|Tokyo|Kyoto|Seoul|Singapore
Bangkok|Mumbai|Delhi|Istanbul|Moscow|Warsaw|Zurich|Geneva|Brussels|Copenhagen|San Francisco|Los Angeles|Philadelphia
Houston|Phoenix|Portland|Atlanta|Miami|Dallas|Montreal|Vancouver|Manchester|Liverpool|Glasgow|Bristol|Cambridge|Oxford
Canada|Mexico|Brazil|Argentina|Germany|France|Spain|Italy|Japan|China|India|Australia|Kenya|Egypt|Norway|Sweden|Poland
Lake Geneva|the Alps|Main Street|Park Avenue|the North Sea|the Pacific|Cape Town|Buenos Aires|Hong Kong""".replace(
    "\n", "|"
).split("|")
MONTHS = """January February March April May June July August September October November December""".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
THINGS = """apples books chairs tickets pages files students letters photographs bottles eggs minutes people cars
houses trees cups boxes messages questions bicycles windows stars songs orders parts meetings lemons keys shoes birds
blankets candles islands hotels engines ships soldiers villages lamps""".split()
UNITS = """miles kilometers meters feet inches pounds kilograms grams gallons liters degrees hours seconds days weeks
months years acres""".split()
QUALITIES = """quiet careful cold warm bright early late difficult simple strange honest gentle enormous fresh narrow
comfortable expensive cheap dangerous famous friendly patient polite serious useful wonderful terrible""".split()


def _pick(choices: list[str]) -> Fill:
    return lambda rng: rng.choice(choices)


def _count(rng: random.Random) -> str:
    """Returns a number: small ones often, large ones sometimes, with and without commas."""
    size = rng.choice((10, 20, 100, 100, 1000, 10_000, 100_000, 1_000_000))
    number = rng.randrange(size)
    return f"{number:,}" if rng.random() < 0.7 else str(number)


def _time(rng: random.Random) -> str:
    hour, minute = rng.randrange(1, 13), rng.choice((0, 15, 30, 45, rng.randrange(60)))
    half = rng.choice(("", "", " am", " pm", " a.m.", " p.m.", " AM", " PM"))
    return f"{hour}{half}" if not minute and half else f"{hour}:{minute:02}{half}"


def _date(rng: random.Random) -> str:
    month, day = rng.choice(MONTHS), rng.randrange(1, 29)
    year = rng.choice(("", "", f", {_year(rng)}"))
    ending = {1: "st", 2: "nd", 3: "rd"}.get(day % 10 if day not in (11, 12, 13) else 0, "th")
    return rng.choice((f"{month} {day}{year}", f"{month} {day}{ending}{year}", f"the {day}{ending} of {month}"))


def _year(rng: random.Random) -> str:
    return str(rng.choice((rng.randrange(1700, 2000), rng.randrange(1900, 2040))))


def _money(rng: random.Random) -> str:
    sign = rng.choice("$$$$£€")
    whole = rng.randrange(rng.choice((10, 100, 1000, 100_000)))
    cents = rng.choice(("", "", f".{rng.randrange(100):02}"))
    return f"{sign}{whole:,}{cents}" if rng.random() < 0.85 else f"{sign}{rng.randrange(1, 20)} million"


def _percent(rng: random.Random) -> str:
    number = rng.choice((str(rng.randrange(101)), f"{rng.randrange(100)}.{rng.randrange(10)}"))
    return f"{number}{rng.choice(('%', '%', ' percent'))}"


def _decimal(rng: random.Random) -> str:
    return f"{rng.randrange(rng.choice((10, 100)))}.{rng.randrange(rng.choice((10, 100)))}"


def _ordinal(rng: random.Random) -> str:
    number = rng.randrange(1, rng.choice((13, 32, 100)))
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number % 100 not in (11, 12, 13) else 0, "th")
    return f"{number}{ending}"


def _phone(rng: random.Random) -> str:
    digits = "".join(rng.choice("0123456789") for _ in range(10))
    return rng.choice((f"{digits[:3]}-{digits[3:6]}-{digits[6:]}", f"{digits[:3]}-{digits[3:7]}"))


def _name(rng: random.Random) -> str:
    first, last = rng.choice(FIRST), rng.choice(LAST)
    title = rng.choice(("Mr.", "Mrs.", "Ms.", "Dr.", "Professor", "Captain", "Aunt", "Uncle"))
    return rng.choice((first, first, f"{first} {last}", f"{first} {last}", f"{title} {last}"))


FILLS: dict[str, Fill] = {
    "name": _name,
    "first": _pick(FIRST),
    "last": _pick(LAST),
    "place": _pick(PLACES),
    "day": _pick(DAYS),
    "month": _pick(MONTHS),
    "things": _pick(THINGS),
    "unit": _pick(UNITS),
    "quality": _pick(QUALITIES),
    "count": _count,
    "small": lambda rng: str(rng.randrange(2, 100)),
    "time": _time,
    "date": _date,
    "year": _year,
    "money": _money,
    "percent": _percent,
    "decimal": _decimal,
    "ordinal": _ordinal,
    "phone": _phone,
}

TEMPLATES = """
{name} will meet us in {place} on {day} at {time}.
The train to {place} leaves at {time} from platform {small}.
My flight arrives at {time}, and {name} is picking me up.
Can you call {name} before {time}?
We need {count} {things} by {date}.
There were {count} {things} in the {ordinal} room.
It costs {money}, but with the discount it is {money}.
The price went from {money} to {money} in {year}.
Please send {money} to {name} by {day}.
About {percent} of the {things} were {quality}.
Sales rose by {percent} in {month}, and fell by {percent} in {month}.
{name} was born in {place} in {year}.
In {year}, {name} moved from {place} to {place}.
The number is {phone}.
Call {phone} and ask for {name}.
He lives at {count} {last} Street, on the {ordinal} floor.
It is {small} degrees in {place} and {small} degrees in {place}.
The road is {decimal} {unit} long.
She ran {decimal} {unit} in {small} minutes.
Chapter {small} begins on page {count}.
{count} plus {count} is {count}.
{small} times {small} is {count}.
Is {name} coming on {day} or on {day}?
Did {name} really pay {money} for {small} {things}?
What happened in {place} on {date}?
{name}, {name} and {name} are waiting outside.
This is {name} from {place}.
Hello {first}, this is {name}. How are you today?
Good morning, {name}! Your appointment is at {time}.
Your order of {small} {things} will arrive on {date}.
The meeting on {day}, {date}, starts at {time}.
I paid {money} for {small} {unit} of it.
The answer is {count}.
The code is {count}.
The score was {small} to {small}.
We are open from {time} to {time}, {day} to {day}.
{name} finished {ordinal}, and {name} finished {ordinal}.
It was the {ordinal} time in {small} years.
{place} is {count} {unit} from {place}.
Between {year} and {year}, the town lost {percent} of its people.
What a {quality} day in {place}!
I have never seen such {quality} {things}!
Why are the {things} so {quality}, {first}?
The {things} in {place} are {quality}, {quality}, and {quality}.
Turn left after {small} {unit}, then right at the {quality} house.
Room {small}, please.
Version {decimal} came out in {month} {year}.
Only {small}% left.
{first}!
{name}.
{place}.
{day}, {date}.
At {time}.
{count} {things}.
{money}.
Yes, {first}.
No, not on {day}.
Thank you, {name}.
Please wait, {first}, it takes about {small} seconds.
The {ordinal} of {month} is a {day}.
From {place}, we drove {count} {unit} to {place}, where {name} had rented a {quality} house for {small} days.
When {name} opened the letter from {place}, there were {small} {things} inside, and a note about the {quality} winter.
""".strip().splitlines()

DRILLS = """
{}, {}, and {}.
{}. {}. {}. {}.
The words are {}, {}, {}.
Say {} again, and then {}.
{} {} {} {}.
Is it {} or {}?
They spoke of {} and {}.
She wrote {} on the wall, and {} below it.
Not {}, but {}.
A {} is not a {}.
""".strip().splitlines()

_HOLE = re.compile(r"\{(\w+)\}")


def filled(rng: random.Random) -> str:
    """Returns one filled template."""
    return _HOLE.sub(lambda hole: FILLS[hole[1]](rng), rng.choice(TEMPLATES))
