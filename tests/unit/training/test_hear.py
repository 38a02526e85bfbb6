"""What is drawn for many prompts at once is what the voice says; word errors are counted as everywhere."""

import struct
from pathlib import Path

import numpy as np
import pytest
import torch

import rhapsode
from rhapsode import TTS
from rhapsode.bench.quality.words import rates

TEXT = "Good morning, George."


@pytest.fixture
def model(tmp_path):
    import pack

    pack.unpack(Path(rhapsode.__path__[0]) / "nano", tmp_path)
    return tmp_path


@pytest.mark.slow
def test_speech_drawn_together_is_what_is_served(model):
    import hear
    from rhapsode.nn import kernels
    from voices import PRESETS

    asks = [hear.Ask(TEXT, 1, False), hear.Ask("Well, hello there!", 3, False), hear.Ask(TEXT, 1, True)]
    with kernels.use("off"):
        speaker = hear.Speaker(model, 3, torch.device("cpu"), positions=48, frames=48)
        frames = speaker.codes(asks)
        assert all(len(some) for some in frames)
        audio = speaker.audio(frames).numpy()
    with TTS() as tts:
        served = [tts.speak(ask.text, voice=list(PRESETS)[ask.preset]).samples[0] for ask in asks[:2]]
    for ours, theirs in zip(audio[:2], served, strict=True):
        assert np.abs(ours[: len(theirs)] - theirs).max() < 1e-3
        assert not ours[len(theirs) :].any()


@pytest.mark.parametrize("heard", ["one too three", "two three", "one two three four five", "", "three two one"])
def test_word_errors_are_those_of_the_benchmark(heard):
    import hear

    meant = "one two three"
    assert hear.word_errors(meant.split(), heard.split()) == round(3 * rates(meant, heard).wer)


def test_tensors_of_a_ctranslate2_file_are_read(tmp_path):
    import whisper

    weight = np.arange(6, dtype=np.float16).reshape(2, 3)

    def name(text):
        return struct.pack("H", len(text) + 1) + text.encode() + b"\0"

    def tensor(key, array, kind):
        shape = struct.pack("B", array.ndim) + b"".join(struct.pack("I", size) for size in array.shape)
        return name(key) + shape + struct.pack("B", kind) + struct.pack("I", array.nbytes) + array.tobytes()

    path = tmp_path / "model.bin"
    scalar = np.array(8, np.int16)
    tensors = tensor("encoder/num_heads", scalar, 2) + tensor("encoder/conv1/weight", weight, 4)
    path.write_bytes(struct.pack("I", 6) + name("WhisperSpec") + struct.pack("II", 3, 2) + tensors)
    found = whisper.read_ctranslate2(path)
    assert list(found) == ["encoder/conv1/weight"]
    assert found["encoder/conv1/weight"].tolist() == weight.tolist()
