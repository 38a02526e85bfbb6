"""The soak: a short one passes, and one with planted faults names each of them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tools.soak.readings import TOLERANCES, compare

from unit.command import environment

ROOT = Path(__file__).parents[2]
LEAKS = ("memory", "descriptors", "threads", "files")


def soak(output: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Returns the exit status and the report."""
    command = [sys.executable, "-m", "tools.soak", "--output", str(output), *arguments]
    env = environment(PYTHONPATH=os.pathsep.join(filter(None, sys.path)))
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=1500, check=False)
    assert output.is_file(), done.stderr
    return done.returncode, json.loads(output.read_text())


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_short_soak_passes(tmp_path: Path) -> None:
    status, report = soak(tmp_path / "soak.json", "--minutes", "0.2", "--models", "dummy")
    (server,) = report["servers"]
    assert server["failures"] == []
    assert (status, report["passed"]) == (0, True)
    assert server["model_loads"] > 1
    assert server["clock_jumps"] > 0
    for behaviour in ("listen", "converse", "upload_and_delete", "leave", "never_read", "fill_disk", "freeze"):
        assert server["actions"][behaviour], behaviour
    assert {check["name"] for check in server["checks"]} == TOLERANCES.keys()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_soak_notices_every_planted_fault(tmp_path: Path) -> None:
    faults = ",".join((*LEAKS, "audio", "status"))
    status, report = soak(tmp_path / "soak.json", "--minutes", "0.1", "--models", "dummy", "--faults", faults)
    (server,) = report["servers"]
    assert (status, report["passed"]) == (1, False)
    failed = {check["name"] for check in server["checks"] if not check["passed"]}
    assert failed == {"memory_mib", "descriptors", "threads", "files"}
    failures = "\n".join(server["failures"])
    assert "wrong audio" in failures
    assert "unexpected status 500" in failures
    assert "a fault that was planted" in failures


@pytest.mark.parametrize("name", TOLERANCES)
def test_each_quantity_may_grow_by_its_tolerance_and_no_more(name: str) -> None:
    before = dict.fromkeys(TOLERANCES, 10.0)
    for more, passed in ((0, True), (TOLERANCES[name], True), (TOLERANCES[name] + 1, False), (-5, True)):
        checks = compare([before, {**before, name: 10.0 + more}])
        assert {check.name for check in checks if not check.passed} == (set() if passed else {name})


def test_one_noisy_reading_of_memory_is_no_leak_but_a_trend_is() -> None:
    before = dict.fromkeys(TOLERANCES, 100.0)

    def is_fine(*memory_mib: float) -> bool:
        return all(check.passed for check in compare([{**before, "memory_mib": mib} for mib in memory_mib]))

    assert is_fine(100, 110, 90, 100, 120, 100, 100, 105, 290)
    assert not is_fine(*range(100, 280, 20))
    assert is_fine(100, 105, 110, 115, 120, 125, 130, 130, 130)
    assert not is_fine(100, 100, 100, 100, 101, 100, 110, 122, 130), "it grows although all caches are full"
    assert is_fine(100, 100, 100, 100, 121, 130), "too few readings to tell"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_soak_of_minutes_passes_with_the_default_voice_and_the_dummy(tmp_path: Path) -> None:
    status, report = soak(tmp_path / "soak.json", "--minutes", "3")
    assert [server["failures"] for server in report["servers"]] == [[], []]
    assert status == 0
