"""A deployment file, the environment and flags become one frozen object, or one clear sentence."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from rhapsode.config import DEFAULT_MODEL, Deployment, resolve
from rhapsode.errors import ConfigError

NO_ENV: Mapping[str, str] = {}


@pytest.fixture
def write(tmp_path: Path):
    def write(text: str | bytes) -> Path:
        file = tmp_path / "deployment.yaml"
        file.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        return file

    return write


def complaint(file: Path | None = None, env: Mapping[str, str] = NO_ENV, flags: dict[str, Any] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        resolve(file, env, flags)
    message = caught.value.message
    assert "\n" not in message
    assert message.endswith((".", "?"))
    return message


# --- who wins ---


def test_without_anything_the_defaults_hold() -> None:
    assert resolve(None, NO_ENV) == Deployment()
    assert resolve(None, NO_ENV).model == DEFAULT_MODEL


def test_the_file_overrides_the_defaults(write) -> None:
    found = resolve(write("model: dummy\nlimits: {max_queue: 3}\n"), NO_ENV)
    assert (found.model, found.limits.max_queue) == ("dummy", 3)
    assert found.limits.max_concurrency == Deployment().limits.max_concurrency


def test_the_environment_overrides_the_file(write) -> None:
    found = resolve(write("model: a\ndevice: cpu\n"), {"RHAPSODE_MODEL": "b"})
    assert (found.model, found.device) == ("b", "cpu")


def test_flags_override_the_environment(write) -> None:
    found = resolve(
        write("model: a\ndtype: float32"), {"RHAPSODE_MODEL": "b", "RHAPSODE_DEVICE": "cpu"}, {"model": "c"}
    )
    assert (found.model, found.device, found.dtype) == ("c", "cpu", "float32")


def test_two_underscores_in_a_variable_nest() -> None:
    assert resolve(None, {"RHAPSODE_CHUNKS__FIRST": "2"}).chunks.first == 2


def test_a_variable_reaches_into_a_stage_and_an_option() -> None:
    found = resolve(None, {"RHAPSODE_STAGES__TALK__DEVICE": "cpu", "RHAPSODE_OPTIONS__LOOKAHEAD": "2"})
    assert found.stages["talk"].device == "cpu"
    assert found.options == {"lookahead": 2}


def test_nested_layers_are_merged_key_by_key(write) -> None:
    file = write("chunks: {first: 3, largest: 8}\nstages: {talk: {workers: 2, device: cpu}}")
    found = resolve(file, {"RHAPSODE_CHUNKS__FIRST": "2"}, {"stages": {"talk": {"workers": 4}}})
    assert (found.chunks.first, found.chunks.largest) == (2, 8)
    assert (found.stages["talk"].workers, found.stages["talk"].device) == (4, "cpu")


def test_variables_of_other_programs_are_left_alone() -> None:
    assert resolve(None, {"PATH": "/bin", "MODEL": "x", "XRHAPSODE_MODEL": "y"}) == Deployment()


def test_resolving_leaves_the_flags_as_they_were(write) -> None:
    flags = {"limits": {"max_queue": 1}}
    resolve(write("limits: {max_concurrency: 2}"), {"RHAPSODE_LIMITS__MAX_QUEUE": "7"}, flags)
    assert flags == {"limits": {"max_queue": 1}}


def test_an_empty_file_changes_nothing(write) -> None:
    assert resolve(write(""), NO_ENV) == Deployment()
    assert resolve(write("# only a comment\n"), NO_ENV) == Deployment()


@pytest.mark.parametrize("path", [("model",), ("limits", "max_queue"), ("chunks", "first"), ("memory", "pages")])
def test_a_configuration_cannot_be_changed(path: tuple[str, ...]) -> None:
    target: Any = resolve(None, NO_ENV)
    for name in path[:-1]:
        target = getattr(target, name)
    with pytest.raises(ValidationError, match="frozen"):
        setattr(target, path[-1], 1)


# --- unknown keys ---


@pytest.mark.parametrize(
    ("text", "key", "nearest"),
    [
        ("devise: cpu", "devise", "device"),
        ("limits: {max_que: 3}", "limits.max_que", "max_queue"),
        ("chunks: {frist: 3}", "chunks.frist", "first"),
        ("memory: {page_sise: 3}", "memory.page_sise", "page_size"),
        ("stages: {talk: {devise: cpu}}", "stages.talk.devise", "device"),
        ("stages: {limits: {devise: cpu}}", "stages.limits.devise", "device"),
    ],
)
def test_an_unknown_key_is_answered_with_the_nearest_known_one(write, text: str, key: str, nearest: str) -> None:
    message = complaint(write(text))
    assert f"'{key}'" in message
    assert f"did you mean '{nearest}'?" in message


def test_an_unknown_key_like_no_other_is_answered_with_all_of_them(write) -> None:
    message = complaint(write("zzzzzz: 1"))
    assert all(name in message for name in Deployment.model_fields)


def test_an_unknown_variable_is_answered_with_the_nearest_known_key() -> None:
    assert "did you mean 'device'?" in complaint(env={"RHAPSODE_DEVISE": "cpu"})
    assert "did you mean 'first'?" in complaint(env={"RHAPSODE_CHUNKS__FRIST": "2"})
    assert "did you mean 'workers'?" in complaint(env={"RHAPSODE_STAGES__TALK__WORKER": "2"})


def test_an_unknown_flag_is_answered_with_the_nearest_known_key() -> None:
    assert "did you mean 'device'?" in complaint(flags={"devise": "cpu"})


# --- wrong values ---


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("model: 5", "model"),
        ("device: ~", "device"),
        ("graphs: 2", "graphs"),
        ("limits: {max_concurrency: 0}", "limits.max_concurrency"),
        ("limits: {max_queue: -1}", "limits.max_queue"),
        ("limits: {max_concurrency: 1.5}", "limits.max_concurrency"),
        ("limits: {max_text_chars: many}", "limits.max_text_chars"),
        ("memory: {pages: 0}", "memory.pages"),
        ("chunks: {growth: 1}", "chunks.growth"),
        ("chunks: {patience_s: -0.5}", "chunks.patience_s"),
        ("chunks: {patience_s: .nan}", "chunks.patience_s"),
        ("stages: {talk: {workers: 0}}", "stages.talk.workers"),
        ("chunks: 5", "chunks"),
        ("chunks: [1, 2]", "chunks"),
        ("stages: {talk: 3}", "stages.talk"),
        ("stages: []", "stages"),
        ("limits: null", "limits"),
        ("options: 3", "options"),
        ("1: 2", "1"),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_key(write, text: str, key: str) -> None:
    assert f"'{key}'" in complaint(write(text))


@pytest.mark.parametrize("text", ["chunks: 5", "stages: {talk: 3}", "limits: null"])
def test_a_complaint_does_not_speak_of_classes_inside(write, text: str) -> None:
    assert "instance of" not in complaint(write(text))


@pytest.mark.parametrize(
    "env",
    [
        {"RHAPSODE_CHUNKS__FIRST": "two"},
        {"RHAPSODE_CHUNKS__FIRST": "["},
        {"RHAPSODE_MODEL": "@x"},
        {"RHAPSODE_CHUNKS": "5", "RHAPSODE_CHUNKS__FIRST": "2"},
        {"RHAPSODE_MODEL": "x", "RHAPSODE_MODEL__DEEP__DEEPER": "2"},
        {"RHAPSODE_OPTIONS__X": "2024-13-45"},
        {"RHAPSODE_OPTIONS__X": "[" * 5000},
    ],
    ids=["type", "yaml", "scalar", "both", "deeper", "date", "deep"],
)
def test_a_variable_that_makes_no_sense_is_refused(env: dict[str, str]) -> None:
    complaint(env=env)


# --- files that are none ---


def test_broken_yaml_is_refused_by_its_line(write) -> None:
    assert "line 2" in complaint(write("model: dummy\n  bad: indent\n"))


@pytest.mark.parametrize(
    "text",
    [
        "{a: b",
        "model: [",
        "\tmodel: x",
        "model: a\n---\nmodel: b",
        "!!python/object:os.system x",
        "model: \x00",
        "a: *nothing",
        "? [1, 2]\n: 3",
        "<<: [1]",
    ],
)
def test_what_is_not_plain_yaml_is_refused_by_the_name_of_its_file(write, text: str) -> None:
    assert "deployment.yaml is not valid YAML" in complaint(write(text))


def test_aliases_that_stand_for_too_much_are_refused_with_their_line(write) -> None:
    bomb = "".join(f"a{n + 1}: &a{n + 1} [{f'*a{n}, ' * 10}]\n" for n in range(9))
    started_s = time.process_time()
    assert complaint(write(f"# a comment\na0: &a0 [1]\n{bomb}")).endswith(
        "deployment.yaml is not valid YAML at line 2: aliases stand for more than 10000 values."
    )
    assert "at line 1: an alias stands for itself" in complaint(write("model: &a [*a]"))
    assert time.process_time() - started_s < 5


def test_a_few_aliases_are_as_good_as_what_they_stand_for(write) -> None:
    stages = resolve(write("stages: {talk: &cpu {device: cpu}, vocode: *cpu}"), env={}).stages
    assert stages["talk"] == stages["vocode"]
    assert stages["talk"].device == "cpu"


@pytest.mark.parametrize(
    "text",
    [
        "options: " + "[" * 5000 + "]" * 5000,
        "x: 2024-13-45",
        "x: !!timestamp 5",
        f"limits: {{max_queue: {'9' * 5000}}}",
    ],
    ids=["deep", "date", "timestamp", "digits"],
)
def test_yaml_its_parser_chokes_on_is_refused_like_any_other(write, text: str) -> None:
    assert len(complaint(write(text))) < 500


def test_a_bomb_of_aliases_is_refused_in_one_short_sentence(write) -> None:
    rows = ["  a: &a [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"  {b}: &{b} [{', '.join([f'*{a}'] * 10)}]" for a, b in ("ab", "bc", "cd", "de")]
    text = "options:\n" + "\n".join(rows) + "\nchunks: *e\n"
    assert len(complaint(write(text))) < 500


@pytest.mark.parametrize("text", ["- model", "model", "5"])
def test_a_file_without_keys_is_refused(write, text: str) -> None:
    assert "keys and values" in complaint(write(text))


def test_a_missing_file_is_refused_by_its_name(tmp_path: Path) -> None:
    message = complaint(tmp_path / "nowhere.yaml")
    assert "nowhere.yaml" in message
    assert "No such file" in message


def test_a_folder_is_not_a_configuration_file(tmp_path: Path) -> None:
    assert str(tmp_path) in complaint(tmp_path)


def test_a_file_that_is_not_utf8_is_refused(write) -> None:
    assert "not UTF-8" in complaint(write(b"model: \xff\xfe"))


# --- secrets ---


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("abc #def", ["abc #def"]),
        ("a,b", ["a", "b"]),
        ("sk-1: x", ["sk-1: x"]),
        ("012345", ["012345"]),
        ("yes", ["yes"]),
        ("null", ["null"]),
        ("{x}", ["{x}"]),
        ("*anchor", ["*anchor"]),
        ("1e5 , 0x10", ["1e5", "0x10"]),
    ],
)
def test_a_key_in_the_environment_is_taken_literally(text: str, keys: list[str]) -> None:
    found = resolve(None, {"RHAPSODE_SERVER__API_KEYS": text}).server.api_keys
    assert [key.get_secret_value() for key in found] == keys


@pytest.mark.parametrize(
    "text", ["", "  ", ",", "abc,", "abc,,def", '"abc', "abc'", "['abc'", "abc\ndef", "a\x00b", "schlüssel"]
)
def test_a_key_that_is_empty_or_cut_off_is_refused_and_not_shown(text: str) -> None:
    message = complaint(env={"RHAPSODE_SERVER__API_KEYS": text})
    assert "an API key is empty" in message
    assert "abc" not in message


def test_keys_may_be_in_a_file_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("sk-one, sk-two\n\nsk-three\n")
    found = resolve(None, {"RHAPSODE_SERVER__API_KEYS_FILE": str(file)}).server.api_keys
    assert [key.get_secret_value() for key in found] == ["sk-one", "sk-two", "sk-three"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is no API key in"),
        (" \n\n", "there is no API key in"),
        ("abc,\n", "an API key is empty"),
        ('"abc"', "an API key is empty"),
        ("schlüssel", "it is no ASCII text"),
        (None, "cannot read the API keys in"),
    ],
)
def test_a_file_without_whole_keys_is_refused_and_not_shown(tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "keys"
    if text is not None:
        file.write_text(text, "utf-8")
    message = complaint(env={"RHAPSODE_SERVER__API_KEYS_FILE": str(file)})
    assert said in message
    assert "abc" not in message


def test_keys_are_given_in_one_place(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("sk-one")
    env = {"RHAPSODE_SERVER__API_KEYS_FILE": str(tmp_path / "keys"), "RHAPSODE_SERVER__API_KEYS": "sk-two"}
    assert "keep one of them" in complaint(env=env)


@pytest.mark.parametrize(
    "text", ["api_keys: ''", "api_keys: [sk-1, '']", "api_keys: ['abc ']", "api_keys: [' ']", "api_keys: 12345"]
)
def test_a_key_in_a_file_is_whole_or_refused(write, text: str) -> None:
    message = complaint(write(f"server: {{{text}}}"))
    assert "api_keys" in message
    assert "abc" not in message
    assert "12345" not in message
