"""Published Wav2Vec2 checkpoints give what transformers computes, in windows that do not depend on how audio is cut."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from rhapsode.alignment.letters import spelled
from rhapsode.alignment.loading import aligned_languages, load_acoustic
from rhapsode.alignment.wav2vec2 import Wav2Vec2Letters
from rhapsode.alignment.windows import PAST, LetterColumns, WindowedModel
from rhapsode.config.alignment import AlignmentConfig
from rhapsode.errors import CheckpointError, ConfigError

GOLDEN = Path(__file__).parents[2] / "golden/wav2vec2"
KINDS = ("group", "layer")


def speech(seconds: float, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(int(seconds * 16_000)) * 0.1).astype(np.float32)


def normalised(samples: np.ndarray) -> torch.Tensor:
    return torch.from_numpy((samples - samples.mean()) / np.sqrt(samples.var() + 1e-7))[None]


def heard(model: WindowedModel, pieces: list[np.ndarray]) -> np.ndarray:
    stream = model.open()
    return np.concatenate([*(stream.feed(piece) for piece in pieces), stream.finish()])


@pytest.fixture(scope="module", params=KINDS)
def folder(request) -> Path:
    return GOLDEN / request.param


@pytest.fixture(scope="module")
def model(folder) -> WindowedModel:
    return WindowedModel.load(folder, "de")


@pytest.fixture
def changed(tmp_path):
    """A copy of a checkpoint whose JSON files can be changed."""
    shutil.copytree(GOLDEN / "layer", tmp_path / "layer")

    def change(file: str = "config.json", **values) -> AlignmentConfig:
        path = tmp_path / "layer" / file
        path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **values}), "utf-8")
        return AlignmentConfig(model=tmp_path / "layer", language="de")

    return change


def test_logits_are_those_of_transformers(folder):
    network = Wav2Vec2Letters.load(folder)
    with np.load(folder / "expected.npz") as expected:
        logits = network(normalised(speech(0.5)))[0].numpy()
        np.testing.assert_allclose(logits, expected["logits"], atol=5e-6)
        assert np.abs(logits - logits[::-1]).max() > 0.1  # frames differ: the order is tested, too


@pytest.mark.parametrize("seed", range(3))
def test_any_cut_of_the_audio_gives_the_same_bits(model, seed):
    samples = speech(3.137)
    cuts = np.sort(np.random.default_rng(seed).integers(0, len(samples), 9))
    assert np.array_equal(heard(model, np.split(samples, cuts)), heard(model, [samples]))


def test_listeners_fed_together_get_what_each_gets_alone(model):
    said = [speech(length, seed) for seed, length in enumerate((1.2, 0.3, 2.9))]
    streams = [model.open() for _ in said]
    together = model.feed_many(list(zip(streams, said, strict=True)))
    for stream, samples, found in zip(streams, said, together, strict=True):
        assert np.array_equal(np.concatenate([found, stream.finish()]), heard(model, [samples]))


@pytest.mark.parametrize(("samples", "frames"), [(0, 0), (1, 1), (320, 1), (321, 2), (16_000, 50), (70_000, 219)])
def test_there_is_one_frame_for_every_20_ms_begun(model, samples, frames):
    assert heard(model, [speech(5)[:samples]]).shape == (frames, len(model.symbols))


def test_frames_come_with_their_block(model):
    stream, samples, frames = model.open(), speech(4), 0
    for index in range(0, len(samples), 160):
        frames += len(stream.feed(samples[index : index + 160]))
        assert frames * 320 >= index + 160 - (model.blocks.delay + 1) * 320
        assert len(stream._samples) <= (PAST + model.blocks.look_ahead + model.blocks.size) * 320


def test_a_window_is_heard_as_the_network_hears_it(model, folder):
    blocks, network = model.blocks, Wav2Vec2Letters.load(folder)
    window = speech(blocks.size * model.frame_s)
    logits = network(normalised(np.concatenate((window, np.zeros(model.margin, np.float32)))))[0]
    known = blocks.size - blocks.look_ahead
    expected = logits.log_softmax(-1)[:known, [0, 4, *range(5, 36)]].numpy()
    np.testing.assert_allclose(model.open().feed(window), expected, atol=1e-5)
    assert model.symbols == ("", " ", *"abcdefghijklmnopqrstuvwxyzäöüß'")


def test_letters_are_found_in_any_vocabulary():
    capitals = LetterColumns({"<pad>": 3, "|": 1, "<s>": 0, "A": 2, "B": 4, "th": 5}, 3, "|")
    assert capitals.symbols == ("", " ", "a", "b")
    assert capitals.pick(np.arange(6, dtype=np.float32)).tolist() == [3, 1, 2, 4]
    unspaced = LetterColumns({"<pad>": 0, "你": 1, "好": 2}, 0, "|")
    assert unspaced.pick(np.array([-1.0, -2.0, -3.0], np.float32)).tolist() == [-1, -30, -2, -3]


def test_letters_that_a_model_knows_are_not_taken_apart():
    assert spelled("Müller-Straße", "abcdefghijklmnopqrstuvwxyzäöüß") == ["müller", "straße"]
    assert spelled("Mu\u0308ller", "müler") == ["müller"]
    assert spelled("Müller-Straße", "abcdefghijklmnopqrstuvwxyz") == ["muller", "strasse"]
    assert spelled("Йод", "йод") == ["йод"]


def test_a_deployment_says_the_language(folder):
    assert aligned_languages(AlignmentConfig(model=folder, language="de")) == ("de",)
    assert load_acoustic(AlignmentConfig(model=folder, language="de")).language == "de"
    with pytest.raises(ConfigError, match=r"language: de"):
        aligned_languages(AlignmentConfig(model=folder))
    with pytest.raises(ConfigError, match="Name the folder of a CTC checkpoint"):
        aligned_languages(AlignmentConfig(language="de"))
    assert aligned_languages(AlignmentConfig()) == ("en",)


@pytest.mark.parametrize(
    ("file", "values", "message"),
    [
        ("config.json", {"model_type": "whisper"}, "whisper"),
        ("config.json", {"adapter_attn_dim": 16}, "adapter_attn_dim"),
        ("config.json", {"feat_extract_norm": "batch"}, "feat_extract_norm"),
        ("config.json", {"num_hidden_layers": 3}, "lacks the tensor"),
        ("config.json", {"num_hidden_layers": 1}, "nothing here uses"),
        ("config.json", {"conv_kernel": [10, 3]}, "equal lengths"),
        ("config.json", {"pad_token_id": 99}, "pad_token_id"),
        ("vocab.json", {"a": 99}, "vocab_size"),
        ("vocab.json", {"a": "x"}, "vocab_size"),
        ("preprocessor_config.json", {"sampling_rate": 8000}, "8000 Hz"),
    ],
)
def test_what_cannot_be_read_is_named(changed, file, values, message):
    with pytest.raises(CheckpointError, match=message):
        load_acoustic(changed(file, **values))
