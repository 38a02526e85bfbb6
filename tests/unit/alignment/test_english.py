"""The acoustic model of the package is complete, small and knows silence."""

import numpy as np
import pytest

from rhapsode.alignment.acoustic import BATCH, ENGLISH, AcousticModel


@pytest.fixture(scope="module")
def model():
    return AcousticModel.load()


def test_it_fits_in_eight_megabytes():
    assert sum(file.stat().st_size for file in ENGLISH.iterdir()) < 8e6


def test_its_symbols_are_the_blank_the_space_and_the_letters(model):
    assert model.language == "en"
    assert model.symbols == ("", " ", *"abcdefghijklmnopqrstuvwxyz", "'")


def test_it_hears_silence_as_the_space(model):
    stream = model.open()
    heard = np.concatenate([stream.feed(np.zeros(16_000, np.float32)), stream.finish()])
    assert (heard.argmax(-1) == 1).all()
    np.testing.assert_allclose(np.exp(heard).sum(-1), 1, atol=1e-4)


def test_many_streams_of_unequal_length_get_exactly_what_each_gets_alone(model):
    rng = np.random.default_rng(0)
    speech = [(rng.standard_normal(rng.integers(0, 8000)) * 0.1).astype(np.float32) for _ in range(BATCH + 3)]
    streams = [model.open() for _ in speech]
    together = model.feed_many(list(zip(streams, speech, strict=True)))
    for stream, said, found in zip(streams, speech, together, strict=True):
        alone = model.open()
        assert np.array_equal(found, alone.feed(said))
        assert np.array_equal(stream.finish(), alone.finish())
