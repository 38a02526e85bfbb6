"""Words of German, French, Spanish, Italian, Portuguese and Russian that the rules of numbers and dates need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rhapsode.text.numbers import french, german, italian, portuguese, russian, spanish

Noun = tuple[str, str, str]
"""The forms of a noun: after one, after a few or decimals, after many. In most languages the last two are the same."""


@dataclass(frozen=True)
class European:
    """The words of one language."""

    cardinal: Callable[[int], str]
    ordinal: Callable[[int], str]
    months: tuple[str, ...]
    point: str
    minus: str
    to: str
    and_: str
    at: str
    dot: str
    slash: str
    dash: str
    units: dict[str, Noun]
    money: dict[str, tuple[Noun, Noun]]
    one_before: dict[str, str] = field(default_factory=dict)
    """Endings of a number, by the form that they have before a masculine noun."""
    one_hour: dict[str, str] = field(default_factory=dict)
    """Endings of a number, by the form that they have before hours."""
    abbreviations: dict[str, str] = field(default_factory=dict)
    of: str = " "
    """What stands between day, month and year."""


def _units(*names: str) -> dict[str, Noun]:
    symbols = ("%", "km", "m", "cm", "mm", "kg", "g", "l", "°C", "km/h", "h", "min", "s", "°")
    nouns = [tuple(name.split("|")) for name in names]
    return {symbol: _noun(noun) for symbol, noun in zip(symbols, nouns, strict=True)}


def _noun(forms: tuple[str, ...]) -> Noun:
    few = forms[min(1, len(forms) - 1)]
    return forms[0], few, forms[-1]


def _money(*names: str) -> dict[str, tuple[Noun, Noun]]:
    parts = [tuple(name.split("/")) for name in names]
    return {
        sign: (_noun(tuple(unit.split("|"))), _noun(tuple(coin.split("|"))))
        for sign, (unit, coin) in zip(("€", "$", "£", "own"), parts, strict=True)
    }


GERMAN = European(
    german.cardinal,
    german.ordinal,
    tuple("Januar Februar März April Mai Juni Juli August September Oktober November Dezember".split()),
    *("Komma", "minus", "bis", "und", "ät", "Punkt", "Schrägstrich", "Strich"),
    _units(
        *("Prozent", "Kilometer", "Meter", "Zentimeter", "Millimeter", "Kilogramm", "Gramm", "Liter", "Grad Celsius"),
        *("Kilometer pro Stunde", "Stunde|Stunden", "Minute|Minuten", "Sekunde|Sekunden", "Grad"),
    ),
    _money("Euro/Cent", "Dollar/Cent", "Pfund/Pence|Pence", "Franken/Rappen"),
    one_before={"eins": "ein"},
    one_hour={"eins": "ein"},
    abbreviations={
        "z.B": "zum Beispiel",
        "d.h": "das heißt",
        "usw": "und so weiter",
        "bzw": "beziehungsweise",
        "ca": "circa",
        "Dr": "Doktor",
        "Nr": "Nummer",
        "Str": "Straße",
        "Hr": "Herr",
        "Fr": "Frau",
        "inkl": "inklusive",
        "u.a": "unter anderem",
    },
)
FRENCH = European(
    french.cardinal,
    french.ordinal,
    tuple("janvier février mars avril mai juin juillet août septembre octobre novembre décembre".split()),
    *("virgule", "moins", "à", "et", "arobase", "point", "barre oblique", "tiret"),
    _units(
        *("pour cent", "kilomètre|kilomètres", "mètre|mètres", "centimètre|centimètres", "millimètre|millimètres"),
        *("kilogramme|kilogrammes", "gramme|grammes", "litre|litres", "degré Celsius|degrés Celsius"),
        *("kilomètre par heure|kilomètres par heure", "heure|heures", "minute|minutes", "seconde|secondes"),
        "degré|degrés",
    ),
    _money(
        "euro|euros/centime|centimes",
        "dollar|dollars/cent|cents",
        "livre|livres/penny|pence",
        "franc|francs/centime|centimes",
    ),
    one_hour={"un": "une"},
    abbreviations={"M": "Monsieur", "Mme": "Madame", "Mlle": "Mademoiselle", "Dr": "docteur", "etc": "et cetera"},
)
SPANISH = European(
    spanish.cardinal,
    spanish.ordinal,
    tuple("enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre".split()),
    *("coma", "menos", "a", "y", "arroba", "punto", "barra", "guion"),
    _units(
        *("por ciento", "kilómetro|kilómetros", "metro|metros", "centímetro|centímetros", "milímetro|milímetros"),
        *("kilogramo|kilogramos", "gramo|gramos", "litro|litros", "grado Celsius|grados Celsius"),
        *("kilómetro por hora|kilómetros por hora", "hora|horas", "minuto|minutos", "segundo|segundos", "grado|grados"),
    ),
    _money(
        "euro|euros/céntimo|céntimos",
        "dólar|dólares/centavo|centavos",
        "libra|libras/penique|peniques",
        "peso|pesos/centavo|centavos",
    ),
    one_before={"veintiuno": "veintiún", "uno": "un"},
    one_hour={"veintiuno": "veintiuna", "uno": "una"},
    abbreviations={"Sr": "señor", "Sra": "señora", "Dr": "doctor", "Dra": "doctora", "etc": "etcétera", "Ud": "usted"},
    of=" de ",
)
ITALIAN = European(
    italian.cardinal,
    italian.ordinal,
    tuple("gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre".split()),
    *("virgola", "meno", "a", "e", "chiocciola", "punto", "barra", "trattino"),
    _units(
        *("per cento", "chilometro|chilometri", "metro|metri", "centimetro|centimetri", "millimetro|millimetri"),
        *("chilogrammo|chilogrammi", "grammo|grammi", "litro|litri", "grado Celsius|gradi Celsius"),
        *("chilometro all'ora|chilometri all'ora", "ora|ore", "minuto|minuti", "secondo|secondi", "grado|gradi"),
    ),
    _money(
        "euro/centesimo|centesimi",
        "dollaro|dollari/centesimo|centesimi",
        "sterlina|sterline/penny|pence",
        "franco|franchi/centesimo|centesimi",
    ),
    one_before={"uno": "un"},
    one_hour={"uno": "una"},
    abbreviations={"Sig": "signor", "Dott": "dottor", "Prof": "professor", "ecc": "eccetera", "Sig.ra": "signora"},
)
PORTUGUESE = European(
    portuguese.cardinal,
    portuguese.ordinal,
    tuple("janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro".split()),
    *("vírgula", "menos", "a", "e", "arroba", "ponto", "barra", "hífen"),
    _units(
        *("por cento", "quilômetro|quilômetros", "metro|metros", "centímetro|centímetros", "milímetro|milímetros"),
        *("quilograma|quilogramas", "grama|gramas", "litro|litros", "grau Celsius|graus Celsius"),
        *("quilômetro por hora|quilômetros por hora", "hora|horas", "minuto|minutos", "segundo|segundos", "grau|graus"),
    ),
    _money(
        "euro|euros/centavo|centavos",
        "dólar|dólares/centavo|centavos",
        "libra|libras/pêni|pence",
        "real|reais/centavo|centavos",
    ),
    one_hour={"um": "uma", "dois": "duas"},
    abbreviations={"Sr": "senhor", "Sra": "senhora", "Dr": "doutor", "Dra": "doutora", "etc": "et cetera"},
    of=" de ",
)
RUSSIAN = European(
    russian.cardinal,
    russian.ordinal,
    tuple("января февраля марта апреля мая июня июля августа сентября октября ноября декабря".split()),
    *("запятая", "минус", "до", "и", "собака", "точка", "слэш", "дефис"),
    _units(
        *("процент|процента|процентов", "километр|километра|километров", "метр|метра|метров"),
        *("сантиметр|сантиметра|сантиметров", "миллиметр|миллиметра|миллиметров"),
        *("килограмм|килограмма|килограммов", "грамм|грамма|граммов", "литр|литра|литров"),
        *("градус Цельсия|градуса Цельсия|градусов Цельсия",),
        *("километр в час|километра в час|километров в час", "час|часа|часов", "минута|минуты|минут"),
        *("секунда|секунды|секунд", "градус|градуса|градусов"),
    ),
    _money(
        "евро/цент|цента|центов",
        "доллар|доллара|долларов/цент|цента|центов",
        "фунт|фунта|фунтов/пенс|пенса|пенсов",
        "рубль|рубля|рублей/копейка|копейки|копеек",
    ),
    abbreviations={"т.е": "то есть", "т.д": "так далее", "т.п": "тому подобное", "др": "другие"},
)
TABLES = {"de": GERMAN, "fr": FRENCH, "es": SPANISH, "it": ITALIAN, "pt": PORTUGUESE, "ru": RUSSIAN}
OWN_SIGNS = {
    "de": ("CHF",),
    "fr": ("CHF",),
    "es": ("MXN",),
    "it": ("CHF",),
    "pt": ("R$", "BRL"),
    "ru": ("₽", "RUB", "руб", "р"),
}
RUSSIAN_UNITS = {"км": "km", "м": "m", "см": "cm", "мм": "mm", "кг": "kg", "г": "g", "л": "l", "км/ч": "km/h"}
RUSSIAN_UNITS |= {"ч": "h", "мин": "min", "сек": "s"}
RUSSIAN_PARTS = {1: ("десятая", "десятых"), 2: ("сотая", "сотых"), 3: ("тысячная", "тысячных")}
