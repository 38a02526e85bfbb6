"""The workflows have the form that GitHub reads, name what exists, and a release publishes only what is whole."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools.release import NEEDED, check_version, check_wheel, entry

from unit.deploy.sources import ROOT, dockerfile

FOLDER = ROOT / ".github/workflows"
FILES = sorted(FOLDER.glob("*.yaml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def workflow(name: str) -> dict[str, Any]:
    return yaml.load((FOLDER / f"{name}.yaml").read_text(), yaml.BaseLoader)  # else `on` would be a bool


def steps(name: str) -> list[dict[str, Any]]:
    return [step for job in workflow(name)["jobs"].values() for step in job.get("steps", ())]


def images() -> list[dict[str, str]]:
    return workflow("images")["jobs"]["image"]["strategy"]["matrix"]["include"]


def test_the_workflows_are_these() -> None:
    assert [path.stem for path in FILES] == ["images", "release"]


def test_they_have_the_form_that_github_reads() -> None:
    pytest.importorskip("check_jsonschema")
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        "vendor.github-workflows",
        *map(str, FILES),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_actionlint_has_nothing_against_them() -> None:
    actionlint = shutil.which("actionlint")
    if actionlint is None:
        pytest.skip("needs actionlint")
    done = subprocess.run([actionlint, *FILES], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("name", ["images", "release"])
def test_a_job_needs_jobs_that_exist_and_may_do_no_more_than_it_says(name: str) -> None:
    given = workflow(name)
    for job in given["jobs"].values():
        needs = job.get("needs", [])
        assert set([needs] if isinstance(needs, str) else needs) <= given["jobs"].keys()
        assert "timeout-minutes" in job or "uses" in job
    assert given["permissions"]["contents"] == "read"


@pytest.mark.parametrize("name", ["images", "release"])
def test_every_action_has_a_version(name: str) -> None:
    used = [step["uses"] for step in steps(name) if "uses" in step]
    assert used
    assert all(re.search(r"@(v\d+|release/v\d+|[0-9a-f]{40})$", action) for action in used)


@pytest.mark.parametrize("name", ["images", "release"])
def test_nothing_from_outside_is_part_of_a_script(name: str) -> None:
    """Names of branches, tags and titles are chosen by others: scripts get them from the environment."""
    for step in steps(name):
        assert not re.search(r"\$\{\{\s*(github|inputs|secrets)\.", step.get("run", ""))


def test_images_are_built_from_stages_and_extras_that_exist() -> None:
    stages = {one.stage for one in dockerfile()}
    scripts = " ".join(step.get("run", "") for step in steps("images"))
    named = set(re.findall(r"--target ([a-z][\w-]*)", scripts)) | {image["target"] for image in images()}
    assert {"cpu", "cuda", "cuda-kernels"} == named <= stages
    extras = [image["extras"] for image in images()] + re.findall(r"EXTRAS=([a-z,]+)", scripts)
    assert {extra for given in extras for extra in given.split(",")} <= PROJECT["optional-dependencies"].keys()


def test_every_image_is_started_without_a_network() -> None:
    (script,) = [step["run"] for step in steps("images") if "--network none" in step.get("run", "")]
    assert "${{ matrix.first }}" in script
    assert all(image["first"] for image in images())


def test_files_and_targets_that_are_named_exist() -> None:
    for name in ("images", "release"):
        text = (FOLDER / f"{name}.yaml").read_text()
        assert all((ROOT / path).exists() for path in re.findall(r"(?:tools|examples)/[\w./-]+\.\w+", text))
        for target in re.findall(r"run: make (\w+)", text):
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert workflow("release")["on"] == {"push": {"tags": ["v*"]}}


def test_nothing_is_published_before_the_checks() -> None:
    jobs = workflow("release")["jobs"]
    publishing = [name for name, job in jobs.items() if "pypi-publish" in str(job) or "gh release" in str(job)]
    assert publishing == ["publish"]
    assert {"check", "wheel", "images"} <= set(jobs["publish"]["needs"])
    assert set(jobs["images"]["needs"]) == {"check", "wheel"}


# --- what the release tool refuses ---

CHANGELOG = "# Changelog\n\n## Unreleased\n\n- later\n\n## 0.2.0 (2030-01-01)\n\n- new\n\n## 0.1.0\n\n- first\n"


def test_the_notes_of_a_release_are_its_entry_in_the_changelog() -> None:
    assert entry(CHANGELOG, "0.2.0") == "- new"
    assert entry(CHANGELOG, "0.1.0") == "- first"
    with pytest.raises(SystemExit, match=r"no entry '## 0\.3\.0'"):
        entry(CHANGELOG, "0.3.0")


def test_a_tag_must_be_the_version() -> None:
    assert check_version(f"v{PROJECT['version']}") == PROJECT["version"]
    with pytest.raises(SystemExit, match=r"the tag is v9\.9\.9"):
        check_version("v9.9.9")


def wheel(folder: Path, names: set[str]) -> Path:
    with zipfile.ZipFile(folder / "rhapsode-1.0-py3-none-any.whl", "w") as file:
        for name in names:
            file.writestr(name, "")
    return folder


def test_a_wheel_that_lacks_a_file_or_holds_another_package_is_refused(tmp_path: Path) -> None:
    check_wheel(wheel(tmp_path, {*NEEDED}), "1.0")
    with pytest.raises(SystemExit, match=f"lacks {NEEDED[0]}"):
        check_wheel(wheel(tmp_path, {*NEEDED[1:]}), "1.0")
    with pytest.raises(SystemExit, match="does not belong"):
        check_wheel(wheel(tmp_path, {*NEEDED, "tests/test_one.py"}), "1.0")
    with pytest.raises(SystemExit, match=r"one wheel of rhapsode 2\.0"):
        check_wheel(tmp_path, "2.0")


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_wheel_of_this_checkout_is_whole(tmp_path: Path) -> None:
    options = ("--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--wheel-dir", str(tmp_path))
    command = [sys.executable, "-m", "pip", "wheel", *options, str(ROOT)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    check_wheel(tmp_path, PROJECT["version"])
