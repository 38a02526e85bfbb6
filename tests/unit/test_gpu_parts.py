"""Every test that needs a GPU belongs to one part of `make test-gpu`, and every part has a record."""

from pathlib import Path

import pytest
from tools.gpu_tests import CPU_FAMILIES, PARTS, ROOT, RULES, Record, digest, records, stale

from rhapsode.models.registry import families

TESTS = ROOT / "tests"
SIGNS = ("pytest.mark.gpu", "TEST_DEVICE")
NAMES = [part.name for part in PARTS]


def needs_a_gpu(path: Path) -> bool:
    """Whether a file has tests that a GPU runs otherwise, or that only a GPU runs."""
    inside = path.is_relative_to(TESTS / "contract") or path.is_relative_to(TESTS / "unit/nn/kernels")
    return path != Path(__file__) and (inside or any(sign in path.read_text() for sign in SIGNS))


def test_every_file_with_gpu_tests_belongs_to_a_part() -> None:
    held = [ROOT / path for part in PARTS for path in part.paths]
    files = [path for path in TESTS.rglob("test_*.py") if needs_a_gpu(path)]
    assert len(files) > 20
    assert [str(p) for p in files if not any(p == place or place in p.parents for place in held)] == []
    assert all(place.exists() for place in held)


def test_every_family_belongs_to_one_part() -> None:
    found, _ = families()
    of_parts = [family for part in PARTS for family in part.families]
    assert sorted([*of_parts, *CPU_FAMILIES]) == sorted(name for name, spec in found.items() if spec.name == name)
    assert all(part.paths == RULES for part in PARTS if part.families)


@pytest.mark.parametrize("name", NAMES)
def test_every_part_has_passed_on_a_gpu(name: str) -> None:
    record = records()[name]
    assert record.passed > 0
    assert record.failed == 0
    assert record.seconds < 9 * 60


def test_all_parts_together_take_less_than_25_minutes() -> None:
    assert sum(record.seconds for record in records().values()) < 25 * 60


def test_stale_records_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(stale()) == {name for name in NAMES if records()[name].digest != digest()}
    if stale():
        with capsys.disabled():
            print("\nrecords of GPU tests are of other files:", ", ".join(stale()))


def test_a_record_is_a_row_of_the_page() -> None:
    for record in records().values():
        assert isinstance(record, Record)
        assert record.row in (ROOT / "docs/gpu-tests.md").read_text()
