"""English measures: a number and the unit after it."""

from __future__ import annotations

import re

from rhapsode.text.normalise.digits import decimal
from rhapsode.text.normalise.english.numbers import amount
from rhapsode.text.normalise.window import Spoken, Word, WordWindow

_NAMES: dict[str, tuple[str, str]] = {
    symbol: (one, many)
    for symbol, one, many in (
        line.split("|")
        for line in """km|kilometer|kilometers
m|meter|meters
cm|centimeter|centimeters
mm|millimeter|millimeters
µm|micrometer|micrometers
nm|nanometer|nanometers
mi|mile|miles
yd|yard|yards
yds|yard|yards
ft|foot|feet
in|inch|inches
kg|kilogram|kilograms
g|gram|grams
mg|milligram|milligrams
lb|pound|pounds
lbs|pound|pounds
oz|ounce|ounces
L|liter|liters
l|liter|liters
ml|milliliter|milliliters
mL|milliliter|milliliters
gal|gallon|gallons
mph|mile per hour|miles per hour
km/h|kilometer per hour|kilometers per hour
kph|kilometer per hour|kilometers per hour
m/s|meter per second|meters per second
ms|millisecond|milliseconds
s|second|seconds
sec|second|seconds
secs|second|seconds
min|minute|minutes
mins|minute|minutes
h|hour|hours
hr|hour|hours
hrs|hour|hours
yr|year|years
yrs|year|years
Hz|hertz|hertz
kHz|kilohertz|kilohertz
MHz|megahertz|megahertz
GHz|gigahertz|gigahertz
B|byte|bytes
KB|kilobyte|kilobytes
kB|kilobyte|kilobytes
MB|megabyte|megabytes
GB|gigabyte|gigabytes
TB|terabyte|terabytes
Mbps|megabit per second|megabits per second
Gbps|gigabit per second|gigabits per second
W|watt|watts
kW|kilowatt|kilowatts
MW|megawatt|megawatts
kWh|kilowatt hour|kilowatt hours
V|volt|volts
A|amp|amps
mA|milliamp|milliamps
mAh|milliamp hour|milliamp hours
Pa|pascal|pascals
hPa|hectopascal|hectopascals
kPa|kilopascal|kilopascals
psi|pound per square inch|pounds per square inch
cal|calorie|calories
kcal|kilocalorie|kilocalories
dB|decibel|decibels
px|pixel|pixels
ha|hectare|hectares
m²|square meter|square meters
m2|square meter|square meters
km²|square kilometer|square kilometers
ft²|square foot|square feet
m³|cubic meter|cubic meters
m3|cubic meter|cubic meters
cm³|cubic centimeter|cubic centimeters
%|percent|percent
°|degree|degrees
°C|degree Celsius|degrees Celsius
℃|degree Celsius|degrees Celsius
°F|degree Fahrenheit|degrees Fahrenheit
℉|degree Fahrenheit|degrees Fahrenheit
°K|kelvin|kelvins
K|kelvin|kelvins
bps|bit per second|bits per second
fps|frame per second|frames per second
rpm|revolution per minute|revolutions per minute
ppm|part per million|parts per million
bpm|beat per minute|beats per minute""".splitlines()
    )
}
_GLUED_ONLY = frozenset(("K", "B"))
"""`5 K` is more often a number of thousands, `4K` a screen."""
_DOTTED = frozenset("in ft lb lbs oz yd yds mi min mins sec secs hr hrs gal approx yr yrs".split())
_AMOUNT = re.compile(r"([-–−+~≈±<>≤≥])?([0-9][0-9,.]*)-?([^0-9.,\s-][^0-9\s]*[23]?)?")
_HEIGHT = re.compile(r"([0-9]{1,2})['’′](?:([0-9]{1,2})(?:[\"”″]|''|’’)?)?")
_SIGNS = {"-": "minus ", "–": "minus ", "−": "minus ", "+": "plus ", "~": "about ", "≈": "about "}
_SIGNS |= {"±": "plus or minus ", "<": "less than ", ">": "more than ", "≤": "at most ", "≥": "at least "}


def measure(window: WordWindow) -> Spoken | None:
    """Reads `5km`, `10 kg`, `-3°C`, `40%`, `60 mph`, `6'2"`."""
    core = window.word.core
    if found := _HEIGHT.fullmatch(core + window.word.tail.rstrip(".,;:!?)")):
        return _height(found, window)
    found = _AMOUNT.fullmatch(core)
    if found is None or decimal(found[2]) is None:
        return None
    sign, text, unit = found.groups()
    said = _SIGNS.get(sign or "", "") + (amount(text) or "")
    if unit:
        return Spoken(f"{said} {_named(text, unit)}") if unit in _NAMES and unit not in _GLUED_ONLY else None
    following = window.next_in_phrase()
    if following is None or not _is_unit(following):
        return None
    unit = following.core
    dot = int(following.tail.startswith(".") and unit in _DOTTED and _goes_on(window))
    return Spoken(f"{said} {_named(text, unit)}", 2, tail=dot)


def unit_after(window: WordWindow) -> str | None:
    """Returns the plural of the unit that follows a range of numbers."""
    following = window.next_in_phrase()
    return _NAMES[following.core][1] if following is not None and _is_unit(following) else None


def _is_unit(word: Word) -> bool:
    """Whether a word of its own is a unit; `in` is a word, unless a dot follows."""
    if word.core == "in":
        return word.tail.startswith(".")
    return word.core in _NAMES and word.core not in _GLUED_ONLY and word.core != "A"


def _named(text: str, unit: str) -> str:
    return _NAMES[unit][text != "1"]


def _goes_on(window: WordWindow) -> bool:
    """Whether the sentence goes on after the dot of a unit."""
    following = window.after(2)
    return following is not None and not following.core[:1].isupper()


def _height(found: re.Match[str], window: WordWindow) -> Spoken:
    feet, inches = found.groups()
    said = f"{amount(feet)} {'foot' if feet == '1' else 'feet'}"
    said += f" {amount(inches)} {'inch' if inches == '1' else 'inches'}" if inches else ""
    return Spoken(said, tail=len(found[0]) - len(window.word.core))
