"""What is measured within a budget, and in which order."""

import pytest

from rhapsode.bench.quality.prompts import SpokenPrompt
from rhapsode.errors import InvalidRequest
from rhapsode.published.plan import read_splits, seconds
from rhapsode.published.steps import MeasuringPace, fitting, sample_steps, speed_steps, spread

PROMPTS = [SpokenPrompt(f"p{i}", "word " * 12) for i in range(16)]
PACE = MeasuringPace(rtf=0.5, heard_s=1.0)


def steps():
    found = sample_steps(["float32", "int8"], ["presets", "clone"], {"en": PROMPTS}, {}, seed=1)
    return [*found, *speed_steps(["float32", "int8"], [1, 8, 32])]


def test_without_a_budget_everything_is_measured():
    kept, left = fitting(steps(), PACE, None)
    assert len(kept) == 2 * 2 * 16 + 2 * 3
    assert not left
    assert len({step.key for step in kept}) == len(kept)


def test_a_budget_takes_some_of_every_precision_and_mode():
    kept, left = fitting(steps(), PACE, 120)
    samples = [step for step in kept if step.kind == "sample"]
    counts = {(s.precision, s.mode): 0 for s in samples}
    for step in samples:
        counts[step.precision, step.mode] += 1
    assert len(counts) == 4
    assert max(counts.values()) - min(counts.values()) <= 1
    assert sum(PACE.cost_s(step) for step in kept) <= 120 * 1.2
    assert {step.listeners for step in left if step.kind == "speed"} >= {32}


def test_dialogues_have_their_share_in_the_first_number_format():
    found = sample_steps(["float32", "int8"], ["presets"], {"en": PROMPTS}, {"en": PROMPTS[:4]}, seed=1)
    kept, _ = fitting(found, PACE, 60)
    talks = [step for step in kept if step.mode == "dialogue"]
    assert len(talks) >= 3
    assert {step.precision for step in talks} == {"float32"}


def test_a_tiny_budget_still_measures_one_of_each():
    kept, _ = fitting(steps(), PACE, 1)
    assert len([step for step in kept if step.kind == "sample"]) == 4
    assert [step.listeners for step in kept if step.kind == "speed"] == [1, 1]


def test_seeds_belong_to_prompts_whatever_is_left_out():
    by_prompt = {step.prompt.id: step.seed for step in steps() if step.prompt}
    assert by_prompt["p0"] == 1
    assert by_prompt["p15"] == 16


def test_the_beginning_of_an_order_has_prompts_from_all_over_the_list():
    order = [number for number, _ in spread(PROMPTS)]
    assert sorted(order) == list(range(16))
    assert sorted(order[:4]) == [0, 4, 8, 12]
    assert [number for number, _ in spread(PROMPTS[:1])] == [0]


@pytest.mark.parametrize(("text", "found"), [("30m", 1800), ("1h30m", 5400), ("90s", 90), ("2h", 7200)])
def test_budgets(text, found):
    assert seconds(text) == found


@pytest.mark.parametrize("text", ["", "0m", "soon", "30", "m30"])
def test_a_budget_that_is_no_time_is_refused(text):
    with pytest.raises(InvalidRequest, match="30m"):
        seconds(text)


def test_seed_tts_eval_is_read_with_its_references(tmp_path):
    for name in ("en", "zh"):
        (tmp_path / name).mkdir()
    (tmp_path / "en" / "meta.lst").write_text(
        "a|said|wavs/r.wav|Speak this.|wavs/gt.wav\nb|said|wavs/r.wav|And this.\n"
    )
    (tmp_path / "zh" / "meta.lst").write_text("c|说|wavs/r.wav|你好。\n")
    splits, languages, where = read_splits(tmp_path, "en,zh", None, "en", None)
    first, second = splits["en"]
    assert (first.reference_text, first.reference) == ("said", tmp_path / "en" / "wavs" / "r.wav")
    assert first.spoken == tmp_path / "en" / "wavs" / "gt.wav"
    assert second.spoken is None
    assert languages == {"en": "en", "zh": "zh"}
    assert where == "Seed-TTS-eval"
    with pytest.raises(InvalidRequest, match="hardcase"):
        read_splits(tmp_path, "hard", None, "en", None)
    with pytest.raises(InvalidRequest, match="some of en, zh, hard"):
        read_splits(tmp_path, "fr", None, "en", None)


def test_fewer_prompts_come_from_all_kinds():
    splits, _, _ = read_splits(None, "", None, "en", 7)
    assert len({prompt.kind for prompt in splits["en"]}) > 4
