"""The network equals upstream's, stage by stage, and a sentence in a crowd is the sentence alone."""

from pathlib import Path

import pytest
import torch

from rhapsode.models.kokoro.net.generator import Polar
from rhapsode.models.kokoro.net.net import Encoded, KokoroNet, phoneme_of_frame
from rhapsode.models.kokoro.net.source import seeded_noise
from rhapsode.models.kokoro.renderer import PhonemeSentence, Renderer
from rhapsode.nn.ragged import Ragged
from unit.kokoro.golden import CASES, golden, net, noise
from unit.kokoro.speaking import rendered, timed


def full(size: int) -> Ragged:
    return Ragged.of(torch.tensor([size]), size, is_full=True)


def close(made: torch.Tensor, wanted: torch.Tensor, tolerance: float) -> bool:
    return made.shape == wanted.shape and float((made.double() - wanted.double()).abs().max()) < tolerance


def encoded(net: KokoroNet, name: str, dtype: torch.dtype) -> tuple[Encoded, torch.Tensor]:
    """The first pass of a case, and its style."""
    found = golden(name)
    ids, style = found["ids"][None], found["style"][None].to(dtype)
    rate = torch.tensor([CASES[name]["speed"]], dtype=dtype)
    return net.durations(ids, style, rate, full(ids.shape[1])), style


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_the_text_side_equals_upstreams(checkpoint: Path, name: str, dtype: str) -> None:
    """Durations are equal; pitch and energy are those of upstream in float64, within what float32 can hold."""
    found, kokoro, precise = golden(name), net(checkpoint, dtype), dtype == "float64"
    made, style = encoded(kokoro, name, getattr(torch, dtype))
    predictor = kokoro.text.predictor
    logits = predictor.duration_logits(made.prosodic, full(made.prosodic.shape[1]))[0]
    assert close(logits, found["dur_logits"], 1e-6 if precise else 2e-5)
    assert made.durations[0].tolist() == found["dur"].tolist()
    assert close(made.text[0].T, found["t_en"], 1e-7 if precise else 1e-5)
    frames = int(made.durations.sum())
    prosodic = made.prosodic[:, phoneme_of_frame(made.durations, frames)[0]]
    prosody = predictor.prosody(prosodic, style[:, style.shape[1] // 2 :], full(frames))
    assert close(prosody.f0[0], found["f0"], 5e-5 if precise else 5e-3)
    assert close(prosody.energy[0], found["n"], 1e-6 if precise else 1e-4)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("float64", 1e-6)])
def test_the_generator_equals_upstreams(checkpoint: Path, dtype: str, tolerance: float) -> None:
    """The spectrum of the source is given: its angles near pi turn over with any rounding."""
    found = {key: array.to(getattr(torch, dtype))[None] for key, array in golden("generator").items()}
    style, source = found["style"], Polar(found["har_magnitude"], found["har_phase"])
    generator = net(checkpoint, dtype).decoder.generator
    made = generator(found["dec_out"], style, source, full(found["dec_out"].shape[2]))
    assert close(made[0], found["audio"][0], tolerance)


def test_decoder_source_and_samples_equal_upstreams(checkpoint: Path) -> None:
    found, kokoro = golden("single"), net(checkpoint, "float64")
    made, style = encoded(kokoro, "single", torch.float64)
    frames, generator = int(made.durations.sum()), kokoro.decoder.generator
    places = phoneme_of_frame(made.durations, frames)[0]
    half = style.shape[1] // 2
    prosody = kokoro.text.predictor.prosody(made.prosodic[:, places], style[:, half:], full(frames))
    decoded = kokoro.decoder.frames(made.text[:, places].transpose(1, 2), prosody, style[:, :half], full(frames))
    assert close(decoded[0], found["dec_out"], 1e-6)
    drawn = noise(len(found["source"]), torch.float64)
    mixed = generator.m_source.mixed(drawn)
    assert close(generator.m_source(prosody.f0, mixed)[0], found["source"], 1e-7)
    source = generator.source_spectrum(prosody.f0, mixed, full(2 * frames))
    angle = source.angle.clone()
    angle[0, :, 0] = found["har_phase0"]  # the signs of these angles are rounding
    samples = generator(decoded, style[:, :half], Polar(source.magnitude, angle), full(2 * frames))
    assert close(samples[0], found["audio"], 1e-3)  # upstream's are stored in float16
    own = kokoro.render(made, style, torch.tensor([0]), full(frames), drawn)
    assert close(own[0], found["audio"], 0.3)
    assert close(own[0, 1000:], found["audio"][1000:], 1e-3)


def crowd(names: tuple[str, ...], dtype: torch.dtype) -> list[PhonemeSentence]:
    return [
        PhonemeSentence(tuple(found["ids"].tolist()), found["style"].to(dtype), CASES[name]["speed"])
        for name, found in ((name, golden(name)) for name in names)
    ]


@pytest.mark.parametrize("names", [("single", "fast"), ("unknown", "single", "fast")])
def test_a_sentence_in_a_crowd_is_the_sentence_alone(checkpoint: Path, names: tuple[str, ...]) -> None:
    renderer = Renderer(net(checkpoint, "float64"), 600)
    sentences = crowd(names, torch.float64)
    together, seeds = timed(renderer, sentences), range(len(names))
    samples = rendered(renderer, together, seeds)
    for name, sentence, found, heard, seed in zip(names, sentences, together, samples, seeds, strict=True):
        assert found.durations.tolist() == golden(name)["dur"].tolist()
        alone = rendered(renderer, timed(renderer, [sentence]), [seed])[0]
        assert heard.shape == alone.shape == (1, CASES[name]["samples"])
        assert float(abs(heard - alone).max()) < 1e-6


def test_padding_changes_nothing(checkpoint: Path) -> None:
    """A launch may be larger than its sentences: its sizes are few, so that they can be captured."""
    renderer = Renderer(net(checkpoint, "float64"), 600)
    sentences = crowd(("single",), torch.float64)
    padded = renderer.measure(sentences, length=9)
    assert padded.durations[0].tolist() == [*golden("single")["dur"].tolist(), *[0] * 5]
    found = timed(renderer, sentences)
    alone = rendered(renderer, found)[0]
    samples = renderer.samples(found, torch.tensor([0]), length=40)
    assert samples.shape == (1, 40 * 600)
    assert close(samples[:, : alone.shape[1]], torch.from_numpy(alone), 1e-6)
    assert not samples[:, alone.shape[1] :].any()


def test_noise_depends_on_the_seed_and_the_sample_alone(checkpoint: Path) -> None:
    together = seeded_noise(torch.tensor([3, 4]), 50, 300)
    alone = seeded_noise(torch.tensor([4]), 3, 300)
    assert torch.equal(together[1:, :900], alone)
    assert not torch.equal(together[0, :900], alone[0])
    assert abs(float(together.mean())) < 0.02
    assert abs(float(together.std()) - 1) < 0.02
    mixer = net(checkpoint, "float64").decoder.generator.m_source
    ratio = mixer.mixed(torch.randn(1, 20_000, 9).double()).std() / mixer.mixed_at_once(together.double()).std()
    assert abs(float(ratio) - 1) < 0.03
