"""The acoustic model gives the same letters however the audio is cut and whoever listens beside."""

import numpy as np
import pytest
import torch

from rhapsode.alignment import step
from rhapsode.alignment.acoustic import AcousticModel
from rhapsode.alignment.network import FRAME, OVERLAP, AcousticConfig, AcousticNetwork

SYMBOLS = ("", " ", *"abcdefghijklmnopqrstuvwxyz", "'")


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    return AcousticNetwork(
        AcousticConfig(SYMBOLS, "en", bands=16, width=24, hidden=32, blocks=3, kernel=5, look_ahead=6)
    )


@pytest.fixture(scope="module", params=["kernels", "traced"])
def model(network, request):
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "traced":
            patch.setattr(step, "library", lambda: None)
        elif step.library() is None:
            pytest.skip("there is no C compiler")
        return AcousticModel(network)


def speech(seconds, seed=0):
    return (np.random.default_rng(seed).standard_normal(int(seconds * 16_000)) * 0.1).astype(np.float32)


def heard(model, pieces):
    stream = model.open()
    return np.concatenate([*(stream.feed(piece) for piece in pieces), stream.finish()])


@pytest.mark.parametrize("seed", range(5))
def test_any_cut_of_the_audio_gives_the_same_bits(model, seed):
    samples, rng = speech(1.37), np.random.default_rng(seed)
    cuts = np.sort(rng.integers(0, len(samples), 12))
    assert np.array_equal(heard(model, np.split(samples, cuts)), heard(model, [samples]))


def test_a_stream_equals_one_pass_over_the_whole(model, network):
    samples, ahead = speech(0.8), model.blocks.look_ahead
    padded = np.concatenate([np.zeros(OVERLAP), samples, np.zeros(ahead * FRAME)]).astype(np.float32)
    with torch.no_grad():
        whole = network(network.features(torch.from_numpy(padded)[None]), network.fresh(1))[0][0, ahead:].numpy()
    np.testing.assert_allclose(heard(model, [samples]), whole, atol=1e-5)


@pytest.mark.parametrize(("samples", "frames"), [(0, 0), (1, 1), (320, 1), (321, 2), (16_000, 50)])
def test_there_is_one_frame_for_every_20_ms_begun(model, samples, frames):
    assert heard(model, [speech(1)[:samples]]).shape == (frames, len(SYMBOLS))


def test_a_frame_comes_out_within_the_delay(model):
    stream, samples, frames = model.open(), speech(2), 0
    for index in range(0, len(samples), 160):
        frames += len(stream.feed(samples[index : index + 160]))
        certain = (index + 160) / model.rate - model.blocks.delay * model.frame_s
        assert frames * model.frame_s >= certain - model.frame_s


def test_listeners_fed_together_get_what_each_gets_alone(model):
    streams = [model.open() for _ in range(3)]
    pieces = [[speech(0.5, seed), speech(0.31, seed + 9)] for seed in range(3)]
    together = [
        model.feed_many([(stream, said[turn]) for stream, said in zip(streams, pieces, strict=True)]) for turn in (0, 1)
    ]
    for row, (stream, said) in enumerate(zip(streams, pieces, strict=True)):
        alone = heard(model, said)
        assert np.array_equal(np.concatenate([together[0][row], together[1][row], stream.finish()]), alone)
