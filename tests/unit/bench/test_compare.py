from pathlib import Path

import pytest

from rhapsode.bench import compare
from rhapsode.bench.report import Run, compose, read, write
from rhapsode.errors import InvalidRequest, OutputError


def report(kind="serve", scale=1.0, label="closed, c=1", seed=0, **config):
    samples = {"first_playable_ms": [scale * value for value in (10.0, 11.0, 10.5, 10.2, 9.9)], "rtf": [0.0, 0.0]}
    return compose(kind, config, seed, [Run(label, samples)])


def test_ratios_are_of_the_second_over_the_first():
    found = compare.ratios(report(), report(scale=3))["closed, c=1"]
    assert found["first_playable_ms"].value == pytest.approx(3, rel=1e-3)
    assert found["first_playable_ms"].certain
    assert found["rtf"] is None


def test_reports_without_anything_in_common_are_an_error():
    with pytest.raises(InvalidRequest, match="cannot be compared"):
        compare.ratios(report(), report("engine"))
    with pytest.raises(InvalidRequest, match="nothing in common"):
        compare.ratios(report(), report(label="closed, c=8"))


def test_other_differences_are_listed():
    lines = compare.differences(report(device="cpu", nested={"a": 1}), report(device="cuda", nested={"a": 2}, seed=1))
    assert any("device cpu -> cuda" in line and "nested.a 1 -> 2" in line for line in lines)
    assert any("seed" in line for line in lines)
    assert compare.differences(report(), report()) == []


def test_the_table_shows_the_spread(capsys):
    compare.present(report(), report(scale=2), (Path("a.json"), Path("b.json")))
    shown = capsys.readouterr().out
    assert "2.000" in shown
    assert "*" in shown
    assert "a.json" in shown


def test_a_report_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "report.json"
    write(report(value=float("nan")), path)
    assert read(path)["config"] == {"value": None}


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"schema": 99, "runs": []}'])
def test_a_file_that_is_no_report_is_an_error(tmp_path, content):
    path = tmp_path / "report.json"
    path.write_text(content)
    with pytest.raises(InvalidRequest):
        read(path)


def test_a_folder_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(OutputError):
        write(report(), tmp_path / "nowhere" / "report.json")
