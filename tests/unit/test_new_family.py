"""A family outside this repository: written from the template, installed, and held to the contract."""

import subprocess
import sys
from pathlib import Path

import pytest

from rhapsode.errors import RhapsodeError
from rhapsode.models.registry import families
from rhapsode.testing.conftest import asked
from rhapsode.testing.found import subjects_of
from unit.command import environment, rhapsode
from unit.plugin import GOOD, add_plugin

ROOT = Path(__file__).parents[2]
NAME, MODULE = "acme-tts", "acme_tts"
A_FEW = "seed_repeats or neighbours_change_nothing or slot_reuse or every_frame or option_is_refused"


def run(*arguments: str, cwd: Path, timeout_s: float = 110, **extra: str) -> subprocess.CompletedProcess[str]:
    command, env = [sys.executable, "-m", *arguments], environment(**extra)
    given = {"cwd": cwd, "env": env, "timeout": timeout_s, "text": True}
    return subprocess.run(command, **given, capture_output=True, check=False)


def install(*what: str, site: Path, cwd: Path, **extra: str) -> None:
    options = ("--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--target", str(site))
    done = run("pip", "install", *options, *what, cwd=cwd, **extra)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the new family's package in `acme-tts`, installed into `site`."""
    folder = tmp_path_factory.mktemp("family")
    done = rhapsode("new-family", NAME, cwd=folder)
    assert done.returncode == 0, done.stderr.decode()
    assert f"--family {NAME}" in done.stdout.decode()
    install(str(folder / NAME), site=folder / "site", cwd=folder)
    return folder


@pytest.mark.slow
def test_a_new_family_passes_the_contract_suite(made: Path) -> None:
    plugin = ("-p", "rhapsode.testing.plugin", "-p", "no:cacheprovider")
    command = ("pytest", *plugin, "--pyargs", "rhapsode.testing", "--family", NAME, "-k", A_FEW, "-rA")
    done = run(*command, cwd=made, PYTHONPATH=str(made / "site"))
    assert done.returncode == 0, done.stdout[-3000:]
    assert f"TestNeighbours::test_batch_neighbours_change_nothing[{NAME}]" in done.stdout
    assert "5 passed" in done.stdout


@pytest.mark.slow
def test_its_own_tests_pass(made: Path) -> None:
    done = run("pytest", "-p", "no:cacheprovider", "tests", cwd=made / NAME, PYTHONPATH=str(made / "site"))
    assert done.returncode == 0, done.stdout[-3000:]
    assert "3 passed" in done.stdout


def test_it_speaks_and_is_listed(made: Path) -> None:
    site = str(made / "site")
    said = rhapsode("say", "Hello there.", "-m", NAME, "-o", "hello.wav", "--no-play", cwd=made, PYTHONPATH=site)
    assert said.returncode == 0, said.stderr.decode()
    assert (made / "hello.wav").stat().st_size == 44 + 12 * 2 * 320 * 2  # two frames of 20 ms a letter, 16 bits
    assert NAME in rhapsode("models", cwd=made, PYTHONPATH=site).stdout.decode()


def test_it_is_written_as_this_repository_is(made: Path) -> None:
    for command in (("check", "--extend-ignore=ANN"), ("format", "--check")):
        config = ("--config", str(ROOT / "pyproject.toml"), "--no-cache")
        done = run("ruff", *command, *config, "src", "tests", cwd=made / NAME)
        assert done.returncode == 0, done.stdout


def test_nothing_of_the_template_is_left_in_it(made: Path) -> None:
    files = [path for path in (made / NAME).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert {f"{file}.py" for file in ("spec", "prompt", "net", "talker", "codec", "subjects")} < {p.name for p in files}
    written = [path for path in files if ".egg-info" not in str(path) and "build" not in path.parts]
    for word in ("my-tts", "my_tts", "MyTts"):
        assert not [path for path in written if word in path.read_text() or word in str(path)]


@pytest.mark.parametrize("name", ["Acme", "acme_tts", "-acme", "acme--tts", "../acme", ""])
def test_a_name_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    done = rhapsode("new-family", "--", name, cwd=tmp_path)
    assert done.returncode == 2
    assert "take lower-case words with hyphens" in done.stderr.decode()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["dummy", "json"])
def test_a_name_that_is_taken_is_refused(tmp_path: Path, name: str) -> None:
    done = rhapsode("new-family", name, cwd=tmp_path)
    assert done.returncode == 2
    assert f"called '{name}' already" in done.stderr.decode()


def test_a_folder_that_exists_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    done = rhapsode("new-family", NAME, cwd=tmp_path)
    assert done.returncode == 2
    assert "exists already" in done.stderr.decode()
    assert not list((tmp_path / NAME).iterdir())


# --- the suite, and who is installed ---


@pytest.mark.slow
def test_an_installed_family_is_no_concern_of_this_repository(tmp_path: Path) -> None:
    site = str(add_plugin(tmp_path, "guest", GOOD))
    report = tmp_path / "report.xml"
    command = ("pytest", "-p", "no:cacheprovider", "tests/contract/test_contract.py", f"--junitxml={report}")
    done = run(*command, "-k", "every_registered or seed_repeats", cwd=ROOT, PYTHONPATH=site)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "test_every_registered_family_is_under_contract" in report.read_text()
    assert "guest" not in report.read_text()


def test_an_unknown_family_is_answered_in_one_line(tmp_path: Path) -> None:
    plugin = ("-p", "rhapsode.testing.plugin", "-p", "no:cacheprovider")
    done = run("pytest", *plugin, "--pyargs", "rhapsode.testing", "--family", "dumy", cwd=tmp_path)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert done.stderr.strip() == "ERROR: there is no family 'dumy': did you mean 'dummy'?"
    assert "Traceback" not in done.stdout


def test_without_a_family_the_suite_asks_for_one(request: pytest.FixtureRequest) -> None:
    with pytest.raises(pytest.UsageError, match="which family"):
        asked(request.config)


def test_a_family_that_needs_a_checkpoint_must_declare_subjects() -> None:
    with pytest.raises(RhapsodeError, match=r"qwen3-tts needs a checkpoint: .*'rhapsode\.testing'"):
        subjects_of("qwen3-tts")


def test_a_family_that_declares_nothing_is_spoken_to_as_it_is() -> None:
    (subject,) = subjects_of("dummy")
    assert (subject.name, len(subject.texts)) == ("dummy", 4)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("SUBJECTS = 'guest'", "must be a sequence of"),
        ("SUBJECTS = ()", "must be a sequence of"),
        ("SUBJECTS = (Subject('dummy', ('a', 'b', 'c', 'd')),)", "of the family 'dummy', not of 'guest'"),
        ("SUBJECTS = (Subject('guest', ('a',)),)", "has 1 texts; the rules need 4"),
    ],
)
def test_subjects_that_are_none_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, message: str
) -> None:
    add_plugin(tmp_path, "guest", f"{GOOD}\nfrom rhapsode.testing.subject import Subject\n{code}")
    points = tmp_path / "plugin_guest-1.0.dist-info" / "entry_points.txt"
    points.write_text(f"{points.read_text()}\n[rhapsode.testing]\nguest = plugin_guest:SUBJECTS\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "plugin_guest", raising=False)
    families.cache_clear()
    try:
        with pytest.raises(RhapsodeError, match=message):
            subjects_of("guest")
    finally:
        families.cache_clear()


# --- as users have it: from wheels ---


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_suite_comes_with_the_package(made: Path) -> None:
    site, folder = made / "installed", made / "elsewhere"
    folder.mkdir()
    install(str(ROOT), str(made / NAME), site=site, cwd=folder)
    env = {"PYTHONPATH": str(site), "PYTHONSAFEPATH": "1"}
    done = run("pytest", "--pyargs", "rhapsode.testing", "--family", NAME, "-rA", cwd=folder, timeout_s=500, **env)
    assert done.returncode == 0, done.stdout[-3000:]
    assert f"test_every_chunk_schedule_gives_the_same_samples[{NAME}]" in done.stdout
    assert str(site / "rhapsode" / "testing") in done.stdout  # not the checkout's
