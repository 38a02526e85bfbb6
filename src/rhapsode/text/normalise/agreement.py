"""Makes numbers agree with the gender of the noun after them, as far as the noun's ending shows it."""

from __future__ import annotations

_FEMININE = {
    "de": ("e", "ung", "heit", "keit", "schaft", "ion", "tät"),
    "es": ("a", "as", "ción", "ciones", "dad", "dades"),
    "it": ("a", "ione", "tà"),
    "pt": ("a", "as", "ção", "ções", "dade", "dades"),
}
_EXCEPTIONS = frozenset(
    "día días dia dias problema problemas mapa mapas sistema sistemas tema temas programa programas".split()
)
_ENDINGS = {
    ("de", False): (("eins", "ein"),),
    ("de", True): (("eins", "eine"),),
    ("es", False): (("veintiuno", "veintiún"), ("uno", "un")),
    ("es", True): (("uno", "una"), ("cientos", "cientas"), ("quinientos", "quinientas")),
    ("it", False): (("uno", "un"),),
    ("it", True): (("uno", "una"),),
    ("pt", False): (),
    ("pt", True): (("um", "uma"), ("dois", "duas"), ("entos", "entas")),
}


def agreed(said: str, noun: str, code: str) -> str:
    """Returns a number in the form that it has before this noun."""
    if code == "ru":
        return _russian(said, noun)
    if code not in _FEMININE or not noun[:1].isalpha() or (code == "de") != noun[0].isupper():
        return said
    feminine = noun.endswith(_FEMININE[code]) and noun not in _EXCEPTIONS
    for ending, new in _ENDINGS[code, feminine]:
        if said == ending or (said.endswith(ending) and code not in ("de", "it")):
            return said.removesuffix(ending) + new
    return said


def _russian(said: str, noun: str) -> str:
    if said.endswith("один") and noun.endswith(("а", "я", "чь")):
        return f"{said[:-2]}на"
    if said.endswith("два") and noun.endswith(("ы", "и")):
        return f"{said[:-1]}е"
    return said
