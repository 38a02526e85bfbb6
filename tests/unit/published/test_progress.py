"""Results are kept as they come, and belong to one measurement."""

import pytest

from rhapsode.errors import InvalidRequest
from rhapsode.published.progress import KeptResults

ABOUT = {"checkpoint": "a", "seed": 1}


def test_results_are_there_again(tmp_path):
    KeptResults(tmp_path / "p", ABOUT).put("one", {"x": 1.5})
    again = KeptResults(tmp_path / "p", ABOUT)
    assert again.results == {"one": {"x": 1.5}}
    again.put("two", None)
    assert list(KeptResults(tmp_path / "p", ABOUT).results) == ["one", "two"]


def test_a_line_that_was_cut_off_is_measured_again(tmp_path):
    first = KeptResults(tmp_path / "p", ABOUT)
    first.put("one", 1)
    first.put("two", 2)
    text = (tmp_path / "p").read_text()
    (tmp_path / "p").write_text(text[:-5])
    again = KeptResults(tmp_path / "p", ABOUT)
    assert again.results == {"one": 1}
    again.put("two", 2)
    assert KeptResults(tmp_path / "p", ABOUT).results == {"one": 1, "two": 2}


def test_another_measurement_does_not_go_on_with_them(tmp_path):
    KeptResults(tmp_path / "p", ABOUT).put("one", 1)
    with pytest.raises(InvalidRequest, match="seed differ"):
        KeptResults(tmp_path / "p", {**ABOUT, "seed": 2})
