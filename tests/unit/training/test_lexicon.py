"""The lexicon of the package is in the phonemes and the spelling that the talker learns."""

from pathlib import Path

import pytest

import arpabet
import lexicon
import phonemes
from rhapsode.text.phonemes import sounds


def test_the_package_respells_phonemes_as_the_talker_reads_them() -> None:
    every = "ˈˌəɹnsɪltkidmpɛæɑbzŋʌOfIAɾɡvᵊɔʃuwʤᵻhɜʧjWθʊYðʒTɐ.,!?—…“”() "
    assert sounds.respelled(every) == phonemes.respelled(every)


@pytest.mark.parametrize(
    ("entry", "spoken"),
    [("hello HH AH0 L OW1", "həlˈO"), ("bratten B R AE1 T AH0 N", "bɹˈætᵊn"), ("luter L UW1 T ER0 # name", "lˈuɾəɹ")],
)
def test_entries_of_the_dictionary_are_in_the_phonemes_of_the_lexicon(entry: str, spoken: str, tmp_path: Path) -> None:
    (tmp_path / "dict").write_text(f"{entry}\n{entry.replace(' ', '(2) ', 1)}\n")
    assert list(arpabet.read(tmp_path / "dict")) == [(entry.split()[0], spoken)]


def test_the_dictionary_adds_only_what_the_lexicon_and_its_rules_lack(tmp_path: Path) -> None:
    (tmp_path / "dict").write_text("wante W AA1 N T\nwants W AA1 N S\nluter L UW1 T ER0\n")
    gold = lexicon.words({"want": "wˈɑnt", "live": {"DEFAULT": "lˈIv", "VERB": "lˈɪv"}, "luter": "lˈuɾəɹ"})
    assert gold["live"] == "lˈIv VERB=lˈɪv"
    assert set(lexicon.names(tmp_path / "dict", gold, {})) == {"wante"}


def test_the_dictionary_decides_for_frequent_names_that_sound_different(tmp_path: Path) -> None:
    (tmp_path / "dict").write_text("anna AE1 N AH0\nanna(2) AA1 N AH0\nmary M EH1 R IY0\nrosa R OW1 S AH0\n")
    (tmp_path / "dist.female.first").write_text("MARY 2.6 2.6 1\nANNA 0.4 3.0 2\n")
    (tmp_path / "dist.male.first").write_text("")
    gold = lexicon.words({"anna": "ˈɑnə", "Mary": "mˈɛɹi", "Rosa": "ɹˈOzə"})
    assert lexicon.given_names(tmp_path, tmp_path / "dict", gold, {}) == {"Anna": "ˈænə"}
