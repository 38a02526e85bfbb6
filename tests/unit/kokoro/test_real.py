"""The published weights, where their packages are installed: equal to upstream's, and understood by a recogniser."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from rhapsode.bench.quality.recogniser import make_recogniser
from rhapsode.models.base import StageContext
from rhapsode.models.kokoro.config import read_config
from rhapsode.models.kokoro.folder import config_of, files_of, installed
from rhapsode.models.kokoro.net.net import Encoded
from rhapsode.models.kokoro.parts import kokoro_net
from rhapsode.models.kokoro.renderer import PhonemeSentence, Renderer
from rhapsode.models.kokoro.spec import SPEC
from rhapsode.models.kokoro.text.english import american, british
from rhapsode.models.kokoro.voices import VoiceStyles
from rhapsode.nn.ragged import Ragged
from rhapsode.types import Clip, Samples
from unit.kokoro.golden import GOLDEN, noise
from unit.kokoro.speaking import rendered, timed

FOLDER = installed()
CASES = json.loads((GOLDEN / "real.json").read_text("utf-8"))
ARRAYS = np.load(GOLDEN / "real.npz")

pytestmark = pytest.mark.skipif(FOLDER is None, reason=f"not installed: {SPEC.install}")


class Real:
    """The network and the voices, as a stage has them."""

    def __init__(self, folder: Path) -> None:
        config = read_config(config_of({}))
        self.net = kokoro_net(StageContext(SPEC, folder, {}, "cpu", "float32"))
        self.styles = VoiceStyles(files_of(folder), config)
        self.vocabulary = config.vocab
        self.renderer = Renderer(self.net, config.samples_per_frame)

    def sentence(self, phonemes: str, voice: str) -> PhonemeSentence:
        ids = [self.vocabulary[symbol] for symbol in phonemes]
        return PhonemeSentence((0, *ids, 0), self.styles.style(voice, len(phonemes)))

    def say(self, phonemes: str, voice: str) -> Samples:
        return rendered(self.renderer, timed(self.renderer, [self.sentence(phonemes, voice)]), [1])[0]


@pytest.fixture(scope="module")
def real() -> Real:
    assert FOLDER is not None
    return Real(FOLDER)


def test_all_durations_are_upstreams(real: Real) -> None:
    """All ten sentences in one launch. The nearest of their durations is 0.004 frames from another."""
    sentences = [real.sentence(case["phonemes"], case["case"].split(".")[0]) for case in CASES]
    assert [list(one.ids) for one in sentences] == [ARRAYS[f"{case['case']}.ids"].tolist() for case in CASES]
    found = timed(real.renderer, sentences)
    assert [one.durations.tolist() for one in found] == [ARRAYS[f"{case['case']}.dur"].tolist() for case in CASES]


def test_samples_are_upstreams(real: Real) -> None:
    """The noise is given. The bound is twice what float32 changes in upstream's own network."""
    case, wanted = CASES[0], ARRAYS[f"{CASES[0]['case']}.audio"].astype(np.float32)
    assert f"{case['case']}.audio" in ARRAYS
    [found] = timed(real.renderer, [real.sentence(case["phonemes"], "af_heart")])
    size = found.frames * real.renderer.samples_per_frame
    encoded = Encoded(torch.from_numpy(found.durations)[None], found.prosodic[None], found.text[None])
    ragged = Ragged.of(torch.tensor([found.frames]), found.frames, is_full=True)
    drawn = noise(size, torch.float32, ARRAYS["noise"])
    made = real.net.render(encoded, found.sentence.style[None], torch.tensor([0]), ragged, drawn)[0]
    difference = made[: len(wanted)].numpy() - wanted
    assert np.sqrt(np.mean(difference**2)) < 0.02 * np.sqrt(np.mean(wanted**2))


@pytest.mark.parametrize(
    ("voice", "phonemise"), [("af_heart", american), pytest.param("bm_george", british, marks=pytest.mark.slow)]
)
def test_a_sentence_is_understood(real: Real, voice: str, phonemise: Callable[[str], str]) -> None:
    pytest.importorskip("pocketsphinx")
    text = "The quick brown fox jumps over the lazy dog."
    samples = real.say(phonemise(text), voice)
    assert np.isfinite(samples).all()
    assert np.abs(samples).max() < 1
    assert 2 < samples.shape[1] / 24_000 < 5
    recogniser = make_recogniser("pocketsphinx")
    assert recogniser is not None
    heard = recogniser.transcribe(Clip(samples, 24_000), "en").lower()
    wanted = text.lower().strip(".").split()
    assert sum(word in heard.split() for word in wanted) >= len(wanted) - 2, heard
