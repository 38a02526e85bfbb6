"""English abbreviations that are said letter by letter: "PBX" is heard as "pee bee ex"."""

from __future__ import annotations

import re

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_SPELLED = "ay bee see dee ee eff gee aitch eye jay kay el em en oh pee cue are ess tee you vee doubleyou ex why zee"
_NAMES = dict(zip(_LETTERS, _SPELLED.split(), strict=True))
_CAPITALS = re.compile(r"[A-Z]{2,6}")
_SYLLABLE = re.compile(r"[^AEIOUY][AEIOUY][^AEIOUY]")
_COMMON = """
AD AH AM AN AS AT BE BY DO EH GO HA HE HI IF IN IS IT ME MY NO OF OH ON OR SO TO UP US WE ACE ACT ADD AGE AGO
AID AIM AIR ALE ALL AND ANT ANY APE ARC ARE ARM ART ASH ASK ATE BAY BEE BOY BUY BYE CRY CUE DAY DRY DUE EAR
EAT EGG EGO END ERA EVE EYE FEE FLY GUY HAY HEY ICE ILL INK INN ION ITS JOY KEY LAY LIE MAY OAK ODD OFF OIL
OLD ONE OUR OUT OWE OWN PAY PIE PRO RAY SAY SEA SEE SHE SHY SKY SPY SUE TEA THE TIE TOE TOO TOY TRY TWO USE
VIA WAY WHO WHY YES YET YOU ZOO
"""
_SHORT_WORDS = frozenset(_COMMON.split())
"""Words that stay words in capitals, although the rule below would take them for abbreviations."""


def said(word: str) -> str:
    """Returns a word as it is said: the names of its letters, or the word itself.

    Single letters are spelled, except "a" and "I". So are two to six capitals without a vowel, and two or three
    capitals with a vowel that make neither a syllable nor a common word. Others, such as "NASA", are read as words.
    """
    if len(word) == 1:
        return word if word in "aAI" else _NAMES.get(word.lower(), word)
    return "-".join(_NAMES[letter] for letter in word.lower()) if _is_abbreviation(word) else word


def _is_abbreviation(word: str) -> bool:
    if not _CAPITALS.fullmatch(word):
        return False
    if not set(word) & set("AEIOUY"):
        return True
    return len(word) <= 3 and word not in _SHORT_WORDS and not _SYLLABLE.fullmatch(word)
