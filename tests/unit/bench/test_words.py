import pytest

from rhapsode.bench.quality.normalise import normalise
from rhapsode.bench.quality.numerals import cardinal, ordinal
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
        ("Call at 3:45 pm.", "call at 3.45 p.m."),
        ("from 8 am to 10 pm", "from eight a.m. to ten P.M."),
        ("at 9:05", "at nine oh five"),
        ("7:00 pm", "seven pm"),
        ("$12.50", "twelve dollars and fifty cents"),
        ("$1", "one dollar"),
        ("$0.99", "99 cents"),
        ("£600", "six hundred pounds"),
        ("$2.4 million", "two point four million dollars"),
        ("12.5%", "twelve point five percent"),
        ("March 3, 1985", "March third, nineteen eighty-five"),
        ("March 3rd", "march 3"),
        ("in 1901", "in nineteen oh one"),
        ("in 2016", "in twenty sixteen"),
        ("in 2005", "in two thousand and five"),
        ("1,200 people", "1200 people"),
        ("35,000", "thirty-five thousand"),
        ("250 grams", "two hundred and fifty grams"),
        ("a hundred", "100"),
        ("555-0142", "5-5-5-0-1-4-2"),
        ("555-0142", "five five five oh one four two"),
        ("number 218", "No. 218"),
        ("from 12:30 to 2:15", "from 1230 to 215"),
        ("from 9:05 to 10:50", "from 905 to 1050"),
        ("at 7:45", "at 7.45"),
        ("365 days", "three hundred and sixty-five days"),
        ("905", "nine hundred and five"),
        ("250,000", "two hundred and fifty thousand"),
        ("31 degrees", "31°"),
        ("the 2nd of May", "the second of may"),
        ("salt & pepper", "salt and pepper"),
    ],
)
def test_the_same_words_written_differently(one, other):
    assert normalise(one) == normalise(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("$12", "12 pounds"),
        ("15", "50"),
        ("1945", "1954"),
        ("3:45", "3:54"),
        ("I am six", "I pm six"),
        ("5%", "5"),
        ("200", "2"),
        ("2,500", "25"),
    ],
)
def test_other_numbers_are_other_words(one, other):
    assert normalise(one) != normalise(other)


def test_other_languages_keep_their_letters():
    assert normalise("Où est-il ? Ça va !", "fr") == "où est il ça va"


def test_numbers():
    assert cardinal(0) == "zero"
    assert cardinal(1_000_015) == "one million fifteen"
    assert [ordinal(n) for n in (1, 12, 20, 33)] == ["first", "twelfth", "twentieth", "thirty third"]
