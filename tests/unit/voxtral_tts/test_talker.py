"""The talker is upstream's: hidden states, logits, velocities and codes; and a step is what a graph can capture."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from rhapsode.nn import attention
from unit.voxtral_tts.asked import CASES, INDEX, Family, Stage, golden, request

CLOSE = 1e-4


def apart(found: torch.Tensor | np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference, relative to the spread of what was wanted."""
    return float(np.abs(np.asarray(found) - wanted).max() / max(1.0, wanted.std()))


def speak(family: Family, names: Sequence[str], **sizes: int) -> list[tuple[np.ndarray, bool]]:
    """Speaks golden cases in one batch with upstream's noise; returns codes, and whether each ended by itself."""
    piece = sizes.pop("piece", 1000)
    stage, slots = Stage(family.talker, **sizes), list(range(len(names)))
    stage.join(slots, [family.golden_prompt(name) for name in names], piece=piece)
    noise = [golden(name)["noise"] for name in names]
    frames: list[list[np.ndarray]] = [[] for _ in names]
    ended = [False for _ in names]
    for i in range(max(map(len, noise))):
        given = torch.from_numpy(np.stack([each[min(i, len(each) - 1)] for each in noise]))
        step = stage.step(*slots, noise=given)
        for row in (row for row in slots if i < len(noise[row])):
            ended[row] = bool(step.stopped[row])
            if step.emitted[row]:
                frames[row].append(step.frames[row].numpy())
    return [(np.stack(own), end) for own, end in zip(frames, ended, strict=True)]


@pytest.mark.parametrize("name", CASES)
def test_codes_are_upstreams_to_the_last(family: Family, name: str) -> None:
    ((codes, ended),) = speak(family, [name])
    assert np.array_equal(codes, golden(name)["rows"])
    assert ended == (CASES[name]["ends"] == "end code")


def test_every_case_in_one_ragged_batch_is_upstreams(family: Family) -> None:
    for name, (codes, _) in zip(CASES, speak(family, list(CASES)), strict=True):
        assert np.array_equal(codes, golden(name)["rows"]), name


@pytest.mark.parametrize("piece", [1, 7])
def test_a_prompt_in_pieces_is_the_same_prompt(family: Family, piece: int) -> None:
    ((codes, _),) = speak(family, ["clone"], piece=piece, page_size=5)
    assert np.array_equal(codes, golden("clone")["rows"])


@pytest.mark.parametrize("name", CASES)
def test_hidden_states_and_logits_under_forced_codes_are_upstreams(family: Family, name: str) -> None:
    wanted, stage = golden(name), Stage(family.talker)
    stage.join([2], [family.golden_prompt(name)])
    forced = torch.from_numpy(wanted["forced_rows"]).long()
    for row in range(len(forced) + 1):
        stage.step(2, force=forced[row : row + 1] if row < len(forced) else None)
    assert apart(torch.cat(stage.hidden), wanted["forced_hidden"]) < CLOSE
    assert apart(torch.cat(stage.logits), wanted["forced_semantic_logits"]) < CLOSE


@pytest.mark.parametrize("name", CASES)
def test_the_flow_head_takes_upstreams_path(family: Family, name: str) -> None:
    wanted, head = golden(name), family.talker.net.acoustic_transformer
    hidden, noise = (torch.from_numpy(wanted[f"flow_{key}"]) for key in ("hidden", "noise"))
    scale = torch.full((len(noise),), CASES[name].get("cfg_alpha", 1.2))
    assert len(head.changes) == INDEX["steps"]
    found = head.integrate(noise, hidden, scale)
    assert apart(found, wanted["flow_path"][:, -1]) < CLOSE
    assert np.array_equal(head.codes(noise, hidden, scale), wanted["flow_codes"][:, 1:])
    assert np.array_equal(family.talker.semantic(hidden), wanted["flow_codes"][:, 0])


def test_every_velocity_of_the_path_is_upstreams(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    from rhapsode.models.voxtral_tts import net

    seen: list[torch.Tensor] = []
    solve = net.solve

    def watched(noise, changes, scale, velocity, guidance):  # type: ignore[no-untyped-def]
        def kept(x: torch.Tensor, step: int) -> torch.Tensor:
            seen.append(velocity(x, step))
            return seen[-1]

        return solve(noise, changes, scale, kept, guidance)

    monkeypatch.setattr(net, "solve", watched)
    wanted = golden("guidance")
    hidden, noise = (torch.from_numpy(wanted[f"flow_{key}"]) for key in ("hidden", "noise"))
    family.talker.net.acoustic_transformer.integrate(noise, hidden, torch.full((3,), 1.7))
    both = torch.stack(seen, dim=1)[:, :, 0]  # [conditional and unconditional rows, steps, A]
    assert apart(both[:3], wanted["flow_velocity_cond"]) < CLOSE
    assert apart(both[3:], wanted["flow_velocity_uncond"]) < CLOSE


def test_a_step_never_asks_the_device_for_a_value(tiny: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(tiny.talker)
    stage.join([0, 1], [tiny.prompt(request({"text": text, "voice": "fr_male"})) for text in ("Hi.", "Hello there.")])
    monkeypatch.setattr(attention, "_used_pages", lambda pages, positions, page_size: pages)  # as on a GPU
    with FakeTensorMode(allow_non_fake_inputs=True):
        step = tiny.talker.step(stage.rows(0, 1), stage.state)
        assert [part.shape for part in step] == [(2, 6), (2,), (2,)]
        with pytest.raises(DataDependentOutputException):
            step.stopped.any().item()


def test_noise_depends_on_the_seed_and_the_step_alone(tiny: Family) -> None:
    stage = Stage(tiny.talker)
    prompt = tiny.prompt(request({"text": "Hi.", "voice": "fr_male"}))
    stage.join([0, 1, 2], [prompt] * 3, seeds=[40, 41, 42])
    crowd = tiny.talker.noise(stage.rows(2, 0, 1))
    assert torch.equal(crowd[1:2], tiny.talker.noise(stage.rows(0)))
    assert not torch.equal(crowd[0], crowd[1])
    stage.table.advance(torch.tensor([0]))
    assert not torch.equal(crowd[1:2], tiny.talker.noise(stage.rows(0)))


def test_guidance_changes_acoustic_codes_and_not_the_semantic_one(tiny: Family) -> None:
    frames = []
    for alpha in (1.0, 4.0):
        stage = Stage(tiny.talker)
        case = {"text": "Hi.", "voice": "fr_male", "cfg_alpha": alpha}
        stage.join([0], [tiny.prompt(request(case))])
        frames.append(stage.step(0).frames[0])
    assert frames[0][0] == frames[1][0]
    assert not torch.equal(frames[0], frames[1])


def test_the_end_is_never_fed_to_the_codec(tiny: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(tiny.talker)
    stage.join([0], [tiny.prompt(request({"text": "Hi.", "voice": "fr_male"}))])
    logits = torch.zeros(1, 128)
    logits[0, 0], logits[0, 1], logits[0, 127] = 9.0, 5.0, 9.0  # empty, end, padding
    monkeypatch.setattr(tiny.talker.net, "semantic_logits", lambda hidden: logits, raising=False)
    step = tiny.talker.step(stage.rows(0), stage.state)
    assert (bool(step.stopped), bool(step.emitted)) == (True, False)
    assert int(step.frames.min()) >= 2
