"""The talker is upstream's: every hidden state, stop logit and latent; alone, in ragged batches, in pieces."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from rhapsode.device.reach import Window
from rhapsode.models.voxcpm2.talker import VoxTalker
from rhapsode.nn import attention
from unit.voxcpm2.asked import CASES, INDEX, Family, Stage, case_noise, golden, inject, request

Families = Callable[[str], Family]
CLOSE = 1e-4
BATCHES = (
    ("zero_shot", "both", "continuation_short", "design"),
    ("reference_control", "few_steps", "one_step", "many_steps"),
)
LIKE_OTHERS = {"both_short", "continuation_24k", "two_clips_44k", "ends_reference"}
LONG = {name for names in BATCHES for name in names} | LIKE_OTHERS
"""Left to the long run: in the short one they are part of a batch, or much like another case."""


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


def apart(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.abs(found - wanted).max())


def speak(parts: Family, names: list[str], piece: int = 1000, page_size: int = 16) -> list[dict[str, np.ndarray]]:
    """These cases together, each in a slot of its own, until the longest has ended."""
    stage = Stage(parts.talker, page_size=page_size)
    slots = [3, 0, 2, 1][: len(names)]
    prompts = [parts.prompt(request(CASES[name])) for name in names]
    stage.join(slots, prompts, piece=piece)
    inject(stage, {slot: case_noise(CASES[name]) for slot, name in zip(slots, names, strict=True)})
    patches, stops = [], []
    try:
        for _ in range(max(len(golden(name)["patches"]) for name in names)):
            step = stage.step(*slots)
            assert bool(step.emitted.all())
            patches.append(step.frames)
            stops.append(step.stopped)
    finally:
        del parts.talker.noise
    stacked = {"base": stage.base, "residual": stage.residual, "stop": stage.stop, "patches": patches, "ended": stops}
    kept = {key: torch.stack(values) for key, values in stacked.items()}
    found = []
    for row, name in enumerate(names):
        count = len(golden(name)["patches"])
        own = {key: value[:count, row].numpy() for key, value in kept.items()}
        found.append(own | {"wav": decode(parts, prompts[row], own["patches"])})
    return found


def decode(parts: Family, prompt: object, patches: np.ndarray) -> np.ndarray:
    """What a listener hears, one patch at a time."""
    state, rows = parts.codec.state(1), Stage(parts.talker, slots=1).rows(0)
    parts.codec.open([prompt], rows, state)
    pieces = [parts.codec.decode(Window.of(torch.from_numpy(patch)[None, None]), rows, state) for patch in patches]
    return torch.cat(pieces, dim=-1)[0, 0].numpy()


def wrong(name: str, found: dict[str, np.ndarray]) -> list[str]:
    """Names what is not upstream's."""
    wanted, case = golden(name), CASES[name]
    far = [key for key in ("base", "residual", "stop", "patches") if not apart(found[key], wanted[key]) < CLOSE]
    if len(found["wav"]) != case["wav_samples"] or not apart(found["wav"][:: INDEX["every"]], wanted["wav"]) < CLOSE:
        far.append("wav")
    if found["ended"].tolist() != [False] * (len(found["ended"]) - 1) + [case["ends"]]:
        far.append("ended")
    return far


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in LONG else ()) for n in CASES])
def test_every_patch_is_upstreams(family: Families, name: str) -> None:
    (found,) = speak(family(name), [name])
    assert len(found["patches"]) >= 12
    assert wrong(name, found) == []


def test_every_mode_in_one_ragged_batch_is_upstreams(family: Families) -> None:
    for names in BATCHES:
        for name, found in zip(names, speak(family("zero_shot"), [*names]), strict=True):
            assert wrong(name, found) == [], name


@pytest.mark.parametrize("piece", [1, 5])
def test_a_prompt_in_pieces_is_the_same_prompt(family: Families, piece: int) -> None:
    (found,) = speak(family("both"), ["both"], piece=piece, page_size=5)
    assert wrong("both", found) == []


# --- what a graph can capture ---


def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where everything is looked at, instead of looking how much there is."""
    monkeypatch.setattr(attention, "_used_pages", lambda pages, positions, page_size: pages)
    monkeypatch.setattr(VoxTalker, "_moves", lambda talker, schedule: talker.net.dit.schedules.max_steps)


@pytest.fixture(scope="module")
def limited(checkpoint: Callable[[str], Path]) -> Family:
    """At most six Euler steps."""
    return Family.open(checkpoint("zero_shot"), max_timesteps=6)


def test_a_step_never_asks_the_device_for_a_value(
    checkpoint: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = Family.open(checkpoint("zero_shot"), max_timesteps=2)  # each is looked at, operator by operator
    stage = Stage(parts.talker)
    stage.join([0, 1], [parts.prompt(request(CASES["one_step"]))] * 2)
    as_on_a_gpu(monkeypatch)
    with FakeTensorMode(allow_non_fake_inputs=True):
        step = parts.talker.step(stage.rows(0, 1), stage.state)
        assert [part.shape for part in step] == [(2, 4, 8), (2,), (2,)]
        with pytest.raises(DataDependentOutputException):
            step.stopped.any().item()


def test_steps_of_no_length_change_nothing(limited: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    (few,) = speak(limited, ["few_steps"])
    as_on_a_gpu(monkeypatch)
    (padded,) = speak(limited, ["few_steps"])
    assert np.array_equal(few["patches"], padded["patches"])


def test_noise_depends_on_the_seed_and_the_step_alone(family: Families) -> None:
    talker = family("zero_shot").talker
    stage = Stage(talker)
    stage.join([0, 1, 2], [family("zero_shot").prompt(request(CASES["zero_shot"]))] * 3, seed=40)
    crowd = talker.noise(stage.rows(2, 0, 1))
    assert torch.equal(crowd[1:2], talker.noise(stage.rows(0)))
    assert not torch.equal(crowd[0], crowd[1])
    stage.table.advance(torch.tensor([0]))
    assert not torch.equal(crowd[1:2], talker.noise(stage.rows(0)))
