"""Families are found by name, by checkpoint and as plugins; a broken one is reported and harms nobody."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rhapsode.config import DEFAULT_MODEL
from rhapsode.errors import CheckpointError, MissingDependency, UnknownModel
from rhapsode.extras import how_to_install
from rhapsode.models import packaged, registry
from rhapsode.models.dummy.spec import SPEC as DUMMY
from rhapsode.models.registry import families, find, missing
from unit.command import python, rhapsode
from unit.plugin import GOOD, add_plugin

BROKEN = {
    "lacks-module": ("from nowhere_at_all import SPEC", "ModuleNotFoundError", "nowhere_at_all"),
    "lacks-spec": ("", "AttributeError", "SPEC"),
    "other-thing": ("SPEC = 'dummy'", "TypeError", "is not a ModelSpec"),
    "bad-syntax": ("SPEC = = 1", "SyntaxError", "invalid syntax"),
    "raises": ("raise ValueError('of all things')", "ValueError", "of all things"),
    "exits": ("import sys; sys.exit('goodbye')", "SystemExit", "goodbye"),
}


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A folder on the import path; what is put there before the first look is found."""
    monkeypatch.syspath_prepend(tmp_path)
    families.cache_clear()
    yield tmp_path
    families.cache_clear()


def checkpoint(folder: Path, config: str) -> str:
    (folder / "config.json").write_text(config, "utf-8")
    return str(folder)


# --- what is here ---


def test_the_built_in_families_are_found() -> None:
    found, _ = families()
    assert {"dummy", "hibari"} <= set(found)
    assert all(name == spec.name for name, spec in found.items())


def test_no_built_in_family_is_broken() -> None:
    assert families()[1] == ()


def test_a_family_is_found_by_name() -> None:
    model = find("dummy")
    assert (model.spec, model.checkpoint, dict(model.config)) == (DUMMY, None, {})


def test_a_family_is_found_by_the_architectures_of_a_checkpoint(tmp_path: Path) -> None:
    model = find(checkpoint(tmp_path, '{"architectures": ["RhapsodeDummy"], "lookahead": 1}'))
    assert model.spec is DUMMY
    assert model.checkpoint == tmp_path
    assert model.config["lookahead"] == 1


def test_the_default_is_a_checkpoint_in_the_package() -> None:
    model = find(DEFAULT_MODEL)
    assert model.spec.name == "qwen3-tts"
    assert model.checkpoint == Path(registry.__file__).parents[1] / "nano"
    assert model.config["tts_model_type"] == "custom_voice"


def test_the_packaged_voice_is_small_and_comes_with_its_card() -> None:
    folder = packaged.PACKAGED[DEFAULT_MODEL]
    assert (folder / "README.md").is_file()
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 60e6


def test_one_known_architecture_among_others_is_enough(tmp_path: Path) -> None:
    assert find(checkpoint(tmp_path, '{"architectures": ["Other", "RhapsodeDummy"]}')).spec is DUMMY


def test_a_folder_is_not_mistaken_for_a_family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dummy").mkdir()
    monkeypatch.chdir(tmp_path)
    assert find("dummy").checkpoint is None


def test_reading_every_spec_loads_nothing_heavy(tmp_path: Path) -> None:
    code = "import sys; from rhapsode.models.registry import families; print(*families()[0]); print(*sys.modules)"
    names, modules = python(code, tmp_path).splitlines()
    assert {"dummy", "hibari"} <= set(names.split())
    assert not {"torch", "numpy", "hibari", "av"} & set(modules.split())


# --- what is not ---


def test_an_unknown_model_is_answered_with_the_nearest_known_one() -> None:
    with pytest.raises(UnknownModel, match=r"'hibarri': did you mean 'hibari'\?") as caught:
        find("hibarri")
    assert caught.value.param == "model"


def test_a_hidden_family_is_not_offered() -> None:
    with pytest.raises(UnknownModel) as caught:
        find("dumy")
    assert "dummy" not in caught.value.message


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "~nobody_of_this_name/model", "no/such/folder"])
def test_a_name_that_can_be_no_path_is_an_unknown_model(name: str) -> None:
    with pytest.raises(UnknownModel):
        find(name)


@pytest.mark.parametrize("config", ['{"architectures": ["Nobody"]}', "{}", '{"architectures": null}'])
def test_a_checkpoint_of_no_known_architecture_is_refused_with_those_known(tmp_path: Path, config: str) -> None:
    with pytest.raises(UnknownModel, match="RhapsodeDummy"):
        find(checkpoint(tmp_path, config))


def test_a_folder_without_a_config_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"holds no config\.json"):
        find(str(tmp_path))


@pytest.mark.parametrize("config", ['{"architectures": [', "", "not json", "[" * 100_000])
def test_a_config_that_is_not_json_is_refused(tmp_path: Path, config: str) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json is not readable JSON"):
        find(checkpoint(tmp_path, config))


def test_a_config_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b'{"architectures": "\xff"}')
    with pytest.raises(CheckpointError, match=r"config\.json is not readable JSON"):
        find(str(tmp_path))


@pytest.mark.parametrize("config", ["[]", '"RhapsodeDummy"', "5", "null"])
def test_a_config_that_is_no_object_is_refused(tmp_path: Path, config: str) -> None:
    with pytest.raises(CheckpointError, match="one JSON object"):
        find(checkpoint(tmp_path, config))


@pytest.mark.parametrize("architectures", ["5", '"RhapsodeDummy"', "true"])
def test_architectures_that_are_no_list_are_refused(tmp_path: Path, architectures: str) -> None:
    with pytest.raises((CheckpointError, UnknownModel)) as caught:
        find(checkpoint(tmp_path, f'{{"architectures": {architectures}}}'))
    assert "architectures" in caught.value.message


# --- what is missing ---


@pytest.mark.parametrize("module", ["nowhere_at_all", "nowhere_at_all.inside"])
def test_a_family_whose_requirement_is_missing_tells_how_to_get_it(plugins: Path, module: str) -> None:
    code = GOOD.replace("hidden=False", f'hidden=False, requires=("{module}",)')
    add_plugin(plugins, f"needy-{module.count('.')}", code)
    with pytest.raises(MissingDependency) as caught:
        find(f"needy-{module.count('.')}")
    assert f"needs {module}" in caught.value.message
    assert f"pip install {module}" in caught.value.message


def test_a_family_of_this_package_is_got_by_its_extra() -> None:
    spec = replace(DUMMY, requires=("nowhere_at_all",), extra="fancy")
    assert missing(spec) == ["nowhere_at_all"]
    assert registry.how_to_get(spec) == how_to_install("fancy")


def test_a_family_that_has_what_it_needs_lacks_nothing() -> None:
    assert missing(replace(DUMMY, requires=("json", "os.path"))) == []


# --- plugins ---


def test_a_good_plugin_is_found_by_name_and_by_checkpoint(plugins: Path, tmp_path: Path) -> None:
    add_plugin(plugins, "guest", GOOD)
    assert find("guest").spec.summary == "made for a test"
    assert families()[1] == ()
    assert find(checkpoint(tmp_path, '{"architectures": ["guest-net"]}')).spec.name == "guest"


def test_an_entry_point_may_leave_out_the_name_of_the_spec(plugins: Path) -> None:
    add_plugin(plugins, "brief", GOOD, value="plugin_brief")
    assert find("brief").spec.name == "brief"


def test_a_folder_may_hold_several_generations_of_a_family(plugins: Path) -> None:
    add_plugin(
        plugins, "first", f"{GOOD}\nfrom dataclasses import replace\nSPEC = (SPEC, replace(SPEC, name='second'))"
    )
    assert (find("first").spec.name, find("second").spec.name) == ("first", "second")
    assert {"higgs-v2", "higgs-v3"} <= set(families()[0])


def test_an_empty_tuple_is_no_spec(plugins: Path) -> None:
    add_plugin(plugins, "hollow", "SPEC = ()")
    assert [one.name for one in families()[1]] == ["hollow"]


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_plugin_is_reported_and_the_others_work(plugins: Path, kind: str) -> None:
    code, error, detail = BROKEN[kind]
    add_plugin(plugins, f"{kind}-one", code)
    add_plugin(plugins, f"{kind}-friend", GOOD)
    found, broken = families()
    assert {"dummy", "hibari", f"{kind}-friend"} <= set(found)
    assert [one.name for one in broken] == [f"{kind}-one"]
    assert error in broken[0].error
    assert detail in broken[0].error


def test_asking_for_a_broken_plugin_says_why_it_is_not_there(plugins: Path) -> None:
    add_plugin(plugins, "wounded", "raise ValueError('of all things')")
    with pytest.raises(UnknownModel, match=r"'wounded' is broken .*of all things.*rhapsode doctor"):
        find("wounded")


def test_two_families_of_one_name_are_reported_and_the_first_stays(plugins: Path) -> None:
    add_plugin(plugins, "impostor", GOOD.replace('"{name}"', '"dummy"', 1))
    found, broken = families()
    assert found["dummy"] is DUMMY
    assert [one.name for one in broken] == ["impostor"]
    assert "another family is called 'dummy' already" in broken[0].error


# --- the commands ---


@pytest.mark.slow
def test_broken_plugins_are_reported_by_doctor_and_break_no_other_command(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    for name, (code, _, _) in BROKEN.items():
        add_plugin(folder, name, code)
    path = {"PYTHONPATH": str(folder)}
    doctor = rhapsode("doctor", cwd=tmp_path, **path)
    report = doctor.stdout.decode()
    assert doctor.returncode == 1
    for name, (_, error, detail) in BROKEN.items():
        line = next(line for line in report.splitlines() if f"model {name} " in f"{line} ")
        assert "BROKEN" in line
        assert error in line
        assert detail in line
    assert "model dummy" in report
    listed = rhapsode("models", "--all", cwd=tmp_path, **path)
    assert listed.returncode == 0
    assert "dummy" in listed.stdout.decode()
    said = rhapsode("say", "Hi.", "--model", "dummy", "-o", "hi.wav", "--no-play", cwd=tmp_path, **path)
    assert said.returncode == 0, said.stderr.decode()
    assert (tmp_path / "hi.wav").stat().st_size > 44


def test_a_plugin_can_speak(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    add_plugin(folder, "guest", GOOD)
    arguments = ("say", "Hello there", "-m", "guest", "-o", "guest.wav", "--no-play")
    said = rhapsode(*arguments, cwd=tmp_path, PYTHONPATH=str(folder))
    assert said.returncode == 0, said.stderr.decode()
    assert (tmp_path / "guest.wav").stat().st_size == 44 + 11 * 1280 * 2  # one frame of 80 ms a letter, 16 bits


def test_models_lists_a_family_that_is_not_installed_and_says_how_to_get_it(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    add_plugin(folder, "needy", GOOD.replace("hidden=False", 'hidden=False, requires=("nowhere",), extra="more"'))
    shown = rhapsode("models", cwd=tmp_path, PYTHONPATH=str(folder)).stdout.decode()
    assert '[more]"' in shown
    rows = json.loads(rhapsode("models", "--json", cwd=tmp_path, PYTHONPATH=str(folder)).stdout)
    assert {row["name"]: row["install"] for row in rows}["needy"].endswith('[more]"')


OPTIONS = """
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from rhapsode.models.dummy.spec import SPEC as DUMMY

class Mood(Enum):
    CALM = "calm"

@dataclass(frozen=True)
class Options:
    needed: int
    words: list[str] = field(default_factory=list)
    mood: Mood = Mood.CALM
    folder: Path = Path("here")
    most: float = float("inf")

SPEC = replace(DUMMY, name="{name}", options=Options, hidden=False, summary="with [brackets] in it")
"""


def test_models_describes_options_of_every_shape(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    add_plugin(folder, "fancy", OPTIONS)
    done = rhapsode("models", "--json", cwd=tmp_path, PYTHONPATH=str(folder))
    assert done.returncode == 0, done.stderr.decode()[-300:]

    def no_such_number(name: str) -> None:
        raise ValueError(f"{name} is not JSON")

    rows = json.loads(done.stdout, parse_constant=no_such_number)
    options = next(row["options"] for row in rows if row["name"] == "fancy")
    assert set(options) == {"needed", "words", "mood", "folder", "most"}


def test_models_shows_a_summary_as_it_was_written(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    add_plugin(folder, "fancy", OPTIONS)
    shown = rhapsode("models", cwd=tmp_path, PYTHONPATH=str(folder))
    assert "with [brackets] in it" in shown.stdout.decode()
