"""The second example of docs/add-a-model.md, a family without autoregression, works as it is printed there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from unit.command import environment, rhapsode

PAGE = (Path(__file__).parents[2] / "docs/add-a-model.md").read_text("utf-8")
NAME, MODULE = "my-burst", "my_burst"
SUBJECTS = """
from rhapsode.testing.found import TEXTS
from rhapsode.testing.subject import Subject

SUBJECTS = (Subject("my-burst", TEXTS, dtype="float64", tolerance=1e-5),)
"""
A_FEW = "seed_repeats or neighbours_change_nothing or in_one_launch or every_frame or every_ring or runaway"
PLUGINS = ("-p", "rhapsode.testing.plugin", "-p", "no:cacheprovider")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the printed files and the entry points of a package."""
    site = tmp_path_factory.mktemp("site")
    (site / MODULE).mkdir()
    files = dict(re.findall(rf"```python\n# {MODULE}/(\w+)\.py\n(.*?)```", PAGE, re.DOTALL))
    assert {*files} == {"spec", "prompt", "net", "worker", "codec"}
    for file, code in {**files, "subjects": SUBJECTS, "__init__": ""}.items():
        (site / MODULE / f"{file}.py").write_text(code, "utf-8")
    info = site / f"{MODULE}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {MODULE}\nVersion: 1.0\n", "utf-8")
    points = (
        f"[rhapsode.models]\n{NAME} = {MODULE}.spec:SPEC\n\n[rhapsode.testing]\n{NAME} = {MODULE}.subjects:SUBJECTS\n"
    )
    (info / "entry_points.txt").write_text(points, "utf-8")
    return site


def rules(site: Path, *which: str) -> str:
    command = [sys.executable, "-m", "pytest", *PLUGINS, "--pyargs", "rhapsode.testing", "--family", NAME, *which]
    env = environment(PYTHONPATH=str(site))
    done = subprocess.run(command, cwd=site, env=env, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def test_it_speaks_and_is_listed(site: Path) -> None:
    given = {"cwd": site, "PYTHONPATH": str(site)}
    said = rhapsode("say", "Hello there. And more.", "-m", NAME, "-o", "hello.wav", "--no-play", **given)
    assert said.returncode == 0, said.stderr.decode()
    assert (site / "hello.wav").stat().st_size > 16_000


def test_it_passes_rules_of_the_contract_suite(site: Path) -> None:
    assert "6 passed" in rules(site, "-k", A_FEW)


@pytest.mark.slow
def test_it_passes_the_contract_suite(site: Path) -> None:
    assert "passed" in rules(site)
