import pytest

from rhapsode.bench.quality.normalise import cardinal, normalise, ordinal
from rhapsode.bench.quality.words import corpus, rates


@pytest.mark.parametrize(
    ("written", "heard", "wer"),
    [
        ("the cat sat down", "the cat sat down", 0),
        ("the cat sat down", "The cat sat down!", 0),
        ("the cat sat down", "the hat sat down", 0.25),
        ("the cat sat down", "the cat sat", 0.25),
        ("the cat sat down", "the big cat sat down", 0.25),
        ("the cat sat down", "", 1),
        ("yes", "no no no", 3),
    ],
)
def test_word_error_rates_of_known_pairs(written, heard, wer):
    assert rates(written, heard).wer == pytest.approx(wer)


def test_character_error_rates():
    assert rates("abcd", "abxd").cer == pytest.approx(0.25)


def test_a_corpus_counts_words_and_not_sentences():
    pairs = [("one", "two"), ("a b c d e f g h i", "a b c d e f g h i")]
    assert corpus(pairs).wer == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("It's here, isn't it?", "it is here is not it"),
        ("I’ll go; you’d stay", "I will go you would stay"),
        ("Meet me at 7:30.", "meet me at seven thirty"),
        ("It costs $1,250.", "it costs one thousand two hundred fifty dollars"),
        ("21st of May", "twenty first of May"),
        ("3.5 percent", "three point five per cent"),
        ("50%", "fifty percent"),
        ("Mr. Smith's well-known dog", "mister smith's well known dog"),
        ("the harbour", "the harbor"),
        ("'quoted'", "quoted"),
        ("We can't", "we cannot"),
    ],
)
def test_the_same_words_written_differently(one, other):
    assert normalise(one) == normalise(other)


def test_other_languages_keep_their_letters():
    assert normalise("Où est-il ? Ça va !", "fr") == "où est il ça va"


def test_numbers():
    assert cardinal(0) == "zero"
    assert cardinal(1_000_015) == "one million fifteen"
    assert [ordinal(n) for n in (1, 12, 20, 33)] == ["first", "twelfth", "twentieth", "thirty third"]
