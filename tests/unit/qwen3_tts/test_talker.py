"""The talker is upstream's: every row of logits, every greedy code; alone, in ragged batches, and fed word by word."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from rhapsode.device.slots import Rows
from rhapsode.models.base import Step
from rhapsode.models.qwen3_tts.talker import LEAST_TOKENS
from rhapsode.nn import attention
from rhapsode.nn.kernels.sampling import Settings
from rhapsode.types import Sampling
from tiny.qwen3_tts import CODES, EOS
from unit.qwen3_tts.asked import BATCHES, CASES, COLUMNS, SINGLES, Family, Stage, golden, request

Families = Callable[[str], Family]
CLOSE = 1e-4
LONG = [name for i, name in enumerate(SINGLES) if i % 6]
"""Left to the long run: each mode has a case in the short one, by its batches too."""
CODES_ONLY = {"cv_0b6_instruct_ignored"}


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


def first(stage: Stage, row: int = 0) -> np.ndarray:
    """The first code's logits of one row, [steps, vocabulary]."""
    return torch.stack(stage.first_logits)[:, row].numpy()


def others(stage: Stage, row: int = 0) -> np.ndarray:
    """The other codes' logits of one row, [steps, 15, codes]."""
    logits = torch.stack(stage.other_logits)[:, row]
    return logits.reshape(len(stage.first_logits), -1, CODES).numpy()


def apart(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.abs(found - wanted).max())


# --- against upstream ---


@pytest.mark.parametrize("name", [*SINGLES[::6], *(pytest.param(name, marks=pytest.mark.slow) for name in LONG)])
def test_logits_and_greedy_codes_are_upstreams(family: Families, name: str) -> None:
    case, wanted = CASES[name], golden(name)
    parts = family(case["checkpoint"])
    stage = Stage(parts.talker)
    stage.join([1], [parts.prompt(request(case))])
    frames = len(wanted["codes"])
    (codes,) = stage.speak([1], frames + 1)
    assert np.array_equal(codes[:frames], wanted["codes"])
    assert len(codes) == frames if case["ends"] else len(codes) > frames
    if name not in CODES_ONLY:
        assert apart(first(stage)[: len(wanted["talker_logits"]), COLUMNS], wanted["talker_logits"]) < CLOSE
        assert apart(first(stage)[0], wanted["talker_row0"]) < CLOSE
        assert apart(others(stage)[:frames], wanted["predictor_logits"]) < CLOSE


class BegunStage(Stage):
    """Makes the pass of the first step with the prompt, as on a GPU."""

    def __init__(self, parts: Family, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(parts.talker)
        monkeypatch.setattr(parts.talker, "_begins", True)
        monkeypatch.setattr(parts.talker._prompts, "_shapes", [(1, 64), (1, 256)])  # launches are padded to these

    def make_step(self, rows: Rows) -> Step:
        is_first = not self.first_logits
        return self.talker.first_step(rows, self.state) if is_first else super().make_step(rows)


@pytest.mark.parametrize("name", SINGLES[::6])
def test_a_first_pass_with_the_prompt_is_upstreams(
    family: Families, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, wanted = CASES[name], golden(name)
    parts = family(case["checkpoint"])
    stage, prompt = BegunStage(parts, monkeypatch), parts.prompt(request(case))
    assert stage.join([1], [prompt]) == [True]
    frames = len(wanted["codes"])
    (codes,) = stage.speak([1], frames)
    assert np.array_equal(codes[:frames], wanted["codes"])
    assert apart(first(stage)[0], wanted["talker_row0"]) < CLOSE
    assert apart(others(stage)[:frames], wanted["predictor_logits"]) < CLOSE


def test_a_first_pass_waits_for_text_and_for_room(family: Families, monkeypatch: pytest.MonkeyPatch) -> None:
    parts, asked = family("custom_voice_proj"), request(CASES["cv_en_stream"])
    prompt = parts.prompt(asked)
    stage = BegunStage(parts, monkeypatch)
    monkeypatch.setattr(parts.talker._prompts, "_shapes", [(1, prompt.length)])
    assert stage.join([1], [prompt]) == [False]  # the launch is full
    open_text = parts.prompt(replace(asked, text="", text_open=True))
    monkeypatch.setattr(parts.talker._prompts, "_shapes", [(1, 64)])
    assert stage.join([2], [open_text]) == [False]  # its first token is not known


@pytest.mark.parametrize("name", BATCHES)
def test_a_ragged_batch_is_upstreams_row_by_row(family: Families, name: str) -> None:
    case, wanted = CASES[name], golden(name)
    parts = family(case["checkpoint"])
    stage = Stage(parts.talker)
    slots = [3, 0, 2][: len(case["rows"])]
    stage.join(slots, [parts.prompt(request(CASES[row])) for row in case["rows"]])
    most = max(len(wanted[f"{i}/codes"]) for i in range(len(slots)))
    for i, codes in enumerate(stage.speak(slots, most + 1)):
        expected, logits = wanted[f"{i}/codes"], wanted[f"{i}/talker_logits"]
        assert np.array_equal(codes[: len(expected)], expected)
        assert apart(first(stage, i)[: len(logits), COLUMNS], logits) < CLOSE
        kept = wanted[f"{i}/predictor_frames"]
        assert apart(others(stage, i)[kept], wanted[f"{i}/predictor_logits"]) < CLOSE


@pytest.mark.parametrize("name", ["cv_auto_stream", "icl_en_block", "cv_instruct_en_block"])
@pytest.mark.parametrize("piece", [1, 7])
def test_a_prompt_in_pieces_is_the_same_prompt(family: Families, name: str, piece: int) -> None:
    case, wanted = CASES[name], golden(name)
    parts = family(case["checkpoint"])
    stage = Stage(parts.talker, page_size=5)
    stage.join([0], [parts.prompt(request(case))], piece=piece)
    (codes,) = stage.speak([0], 8)
    assert np.array_equal(codes, wanted["codes"][:8])
    assert apart(first(stage)[:8, COLUMNS], wanted["talker_logits"][:8]) < CLOSE


def test_requests_join_and_leave_between_frames(family: Families) -> None:
    names = ["cv_auto_stream", "cv_en_stream", "cv_instruct_en_block"]
    parts = family("custom_voice_proj")
    prompts = [parts.prompt(request(CASES[name])) for name in names]
    stage, said = Stage(parts.talker), {slot: [] for slot in range(3)}
    alive: list[int] = []
    for turn in range(20):
        if turn in (0, 3, 7):
            slot = len(alive)
            stage.join([slot], [prompts[slot]])
            alive.append(slot)
        for slot, frame in zip(alive[::-1], stage.step(*alive[::-1]).frames, strict=True):
            said[slot].append(frame.numpy())
    for slot, name in enumerate(names):
        assert np.array_equal(said[slot], golden(name)["codes"][: len(said[slot])])


# --- text that arrives while it is spoken ---


@pytest.mark.parametrize("name", ["cv_auto_stream", "xvec_en_stream", "vd_plain_de_stream", "cv_instruct_auto_stream"])
@pytest.mark.parametrize("chars", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_text_in_pieces_gives_the_codes_of_the_whole_text(family: Families, name: str, chars: int) -> None:
    case, wanted = CASES[name], golden(name)
    parts = family(case["checkpoint"])
    text = case["text"]
    prompt = parts.prompt(request(case | {"text": text[:chars]}, text_open=True))
    stage, codes, at = Stage(parts.talker), [], chars
    stage.join([2], [prompt])
    while len(codes) < len(wanted["codes"]):
        steps = prompt.feed.steps()
        if steps is not None and len(codes) >= steps:
            tokens = list(prompt.feed.push(text[at : at + chars]))
            at += chars
            final = at >= len(text)
            tokens += prompt.feed.close() if final else []
            stage.talker.extend(tokens, final, stage.rows(2), stage.state)
        else:
            codes.append(stage.step(2).frames[0].numpy())
    assert np.array_equal(codes, wanted["codes"])


def test_a_reference_in_context_takes_text_in_pieces_once_enough_is_there(family: Families) -> None:
    case, wanted = CASES["icl_en_stream"], golden("icl_en_stream")
    parts = family(case["checkpoint"])
    text = case["text"]
    prompt = parts.prompt(request(case | {"text": text[:-2]}, text_open=True))
    stage = Stage(parts.talker)
    stage.join([0], [prompt])
    before = prompt.feed.steps()
    assert before == len(prompt.text)
    stage.talker.extend([*prompt.feed.push(text[-2:]), *prompt.feed.close()], True, stage.rows(0), stage.state)
    (codes,) = stage.speak([0], len(wanted["codes"]))
    assert np.array_equal(codes, wanted["codes"])


def test_more_text_than_there_can_be_frames_is_harmless(family: Families) -> None:
    parts = family("custom_voice_proj")
    prompt = parts.prompt(request(CASES["cv_auto_stream"]))
    longer = replace(prompt, text=[*prompt.text[:-1], *[prompt.text[0]] * 9000])
    stage = Stage(parts.talker)
    stage.join([0, 1], [longer, parts.prompt(request(CASES["cv_en_stream"]))])
    codes, other = stage.speak([0, 1], 12)
    stage.talker.extend([1] * 9000, False, stage.rows(0), stage.state)
    assert np.array_equal(codes, golden("cv_auto_stream")["codes"][:12])
    assert np.array_equal(other, golden("cv_en_stream")["codes"][:12])


def test_text_that_never_came_is_ended_at_once(family: Families) -> None:
    parts = family("custom_voice_proj")
    case = CASES["cv_en_stream"]
    prompt = parts.prompt(request(case | {"text": ""}, text_open=True))
    stage = Stage(parts.talker)
    stage.join([0], [prompt])
    assert prompt.feed.steps() == 0
    stage.talker.extend(prompt.feed.close(), True, stage.rows(0), stage.state)
    step = stage.step(0)
    assert (step.emitted.tolist(), step.stopped.tolist()) == ([False], [True])


# --- sampling ---


def sampled(parts: Family, names: list[str], seeds: list[int], steps: int = 12, **wishes: float) -> list[np.ndarray]:
    stage = Stage(parts.talker)
    slots = list(range(len(names)))
    stage.join(slots, [parts.prompt(request(CASES[n])) for n in names], Sampling(**wishes), seeds)
    return stage.speak(slots, steps)


def test_a_seed_repeats_alone_and_in_company(family: Families) -> None:
    parts = family("custom_voice_proj")
    alone = sampled(parts, ["cv_en_stream"], [5])[0]
    assert np.array_equal(alone, sampled(parts, ["cv_en_stream"], [5])[0])
    crowd = sampled(parts, ["cv_instruct_en_block", "cv_en_stream", "cv_auto_block"], [1, 5, 9])
    assert np.array_equal(alone, crowd[1])


def test_another_seed_says_it_otherwise(family: Families) -> None:
    one, two = sampled(family("custom_voice_proj"), ["cv_en_stream", "cv_en_stream"], [5, 6])
    assert (one[:, 0] != two[:, 0]).any()
    assert (one[:, 1:] != two[:, 1:]).any()


def test_the_checkpoints_own_settings_hold_where_nothing_is_said(family: Families) -> None:
    talker = family("custom_voice_proj").talker
    assert talker.defaults == Sampling(temperature=0.9, top_k=50, top_p=1.0, repetition_penalty=1.05)


def test_the_other_codes_have_settings_of_their_own(family: Families) -> None:
    parts, case = family("custom_voice_proj"), CASES["cv_en_stream"]
    options = {"non_streaming_mode": False, "subtalker_top_k": 1}
    stage = Stage(parts.talker)
    stage.join([0], [parts.prompt(request(case, options=options))], Sampling(), [3])
    (codes,) = stage.speak([0], 10)
    assert np.array_equal(codes[:, 1:], others(stage)[: len(codes)].argmax(-1))
    assert (codes[:, 0] != first(stage)[: len(codes)].argmax(-1)).any()


def test_the_end_is_no_code_and_no_early_choice(family: Families) -> None:
    parts = family("custom_voice_proj_eos5.0")
    for seed in range(6):
        stage = Stage(parts.talker)
        stage.join([0], [parts.prompt(request(CASES["cv_hasty_block"]))], Sampling(), [seed])
        for step_index in range(30):
            step = stage.step(0)
            assert step.frames.shape == (1, 16)
            assert step.frames.min() >= 0
            assert step.frames.max() < CODES
            if step.stopped:
                assert not step.emitted
                assert step_index >= LEAST_TOKENS
                break
        else:
            raise AssertionError("the hasty checkpoint did not end")


def test_a_code_that_was_drawn_is_penalised_from_then_on(family: Families) -> None:
    parts = family("custom_voice_proj")
    plain, wary = (
        sampled(parts, ["cv_en_block"], [0], 24, temperature=0.0, repetition_penalty=p)[0][:, 0] for p in (1.0, 9.0)
    )
    assert len(set(wary.tolist())) > len(set(plain.tolist()))


def test_ids_that_are_no_codes_are_never_drawn(family: Families) -> None:
    (codes,) = sampled(family("custom_voice_proj"), ["cv_en_block"], [0], 24, temperature=5.0, top_k=0)
    assert codes.max() < CODES < EOS


# --- what a graph captures ---


def test_the_step_asks_nothing_of_its_values_where_that_would_mean_waiting(
    family: Families, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = family("custom_voice_proj")
    stage = Stage(parts.talker)
    stage.join([0, 1], [parts.prompt(request(CASES["cv_en_stream"]))] * 2)
    monkeypatch.setattr(parts.talker.net.model, "program", None)
    monkeypatch.setattr(parts.talker.net.code_predictor, "program", None)
    # As on a GPU, where both look at everything instead of looking how much there is.
    monkeypatch.setattr(attention, "_used_pages", lambda pages, positions, page_size: pages)
    monkeypatch.setattr(Settings, "partial_k", lambda settings: None)
    with FakeTensorMode(allow_non_fake_inputs=True):
        step = parts.talker.step(stage.rows(0, 1), stage.state)
        assert [part.shape for part in step] == [(2, 16), (2,), (2,)]
        with pytest.raises(DataDependentOutputException):
            step.stopped.any().item()


def test_looking_at_everything_gives_the_same_codes(family: Families, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = family("custom_voice_proj")
    expected = sampled(parts, ["cv_en_stream", "cv_auto_block"], [5, 6])
    monkeypatch.setattr(attention, "_used_pages", lambda pages, positions, page_size: pages)
    monkeypatch.setattr(Settings, "partial_k", lambda settings: None)
    for wide, narrow in zip(sampled(parts, ["cv_en_stream", "cv_auto_block"], [5, 6]), expected, strict=True):
        assert np.array_equal(wide, narrow)


# --- slots ---


def test_a_slot_that_is_used_again_remembers_nothing(family: Families) -> None:
    parts = family("custom_voice_proj")
    stage = Stage(parts.talker)
    for name in ("cv_auto_block", "cv_instruct_auto_stream", "cv_en_stream"):
        stage.join([1], [parts.prompt(request(CASES[name]))])
        (codes,) = stage.speak([1], 24)
        assert np.array_equal(codes, golden(name)["codes"])


def test_padding_rows_change_nothing(family: Families) -> None:
    parts, stage = family("custom_voice_proj"), Stage(family("custom_voice_proj").talker)
    scratch = stage.state.text.shape[0] - 1
    stage.join([1], [parts.prompt(request(CASES["cv_en_stream"]))])
    codes = [stage.step(1, scratch, scratch).frames[0].numpy() for _ in range(10)]
    assert np.array_equal(codes, golden("cv_en_stream")["codes"][:10])


def test_random_weights_speak_without_a_file(family: Families, tmp_path, checkpoint) -> None:
    source = checkpoint("custom_voice_proj")
    for name in ("config.json", "vocab.json", "merges.txt"):
        (tmp_path / name).write_bytes((source / name).read_bytes())
    parts = Family.open(tmp_path, random_weights=True)
    stage = Stage(parts.talker)
    stage.join([0], [parts.prompt(request(CASES["cv_en_stream"]))], Sampling(), [1])
    (codes,) = stage.speak([0], 16)
    assert torch.stack(stage.first_logits).isfinite().all()
    assert torch.stack(stage.first_logits)[0].std() > 0.5
    assert len(np.unique(codes[:, 1:])) > 20
