"""A checkpoint is recognised by the files it holds and by what they say; nothing in them is executed."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rhapsode.checkpoints import hub
from rhapsode.checkpoints.tagged_yaml import TaggedList, TaggedMapping, TaggedText, read_tagged_yaml, resolved
from rhapsode.errors import CheckpointError, UnknownModel
from rhapsode.models import registry
from rhapsode.models.base import Layout
from rhapsode.models.dummy.spec import SPEC as DUMMY
from rhapsode.models.registry import families, find

PARAMS = replace(
    DUMMY,
    name="by-params",
    layouts=(
        Layout("params.json", {"model_type": ("made_up_tts",)}),
        Layout("params.json", {"architectures": ("MadeUpForTTS",)}),
    ),
)
YAML = replace(DUMMY, name="by-yaml", layouts=(Layout("madeup3.yaml"),), files=("llm.pt",))
WEIGHTS = replace(DUMMY, name="by-weights", layouts=(Layout("talker_*.safetensors"), Layout("talker_*.pt")))
BOTH = replace(DUMMY, name="by-both", layouts=(Layout(where={"model_type": ("a", "b"), "size": ("7",)}),))


@pytest.fixture(autouse=True)
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four families more than there are."""
    found, broken = families()
    more = {spec.name: spec for spec in (YAML, PARAMS, BOTH, WEIGHTS)}
    monkeypatch.setattr(registry, "families", lambda: ({**more, **found}, broken))


def checkpoint(folder: Path, **files: str) -> str:
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content, "utf-8")
    return str(folder)


@pytest.mark.parametrize("params", ['{"model_type": "made_up_tts", "dim": 4}', '{"architectures": ["MadeUpForTTS"]}'])
def test_a_checkpoint_may_have_another_file_than_config_json(tmp_path: Path, params: str) -> None:
    found = find(checkpoint(tmp_path, params__json=params))
    assert (found.spec.name, found.checkpoint) == ("by-params", tmp_path)
    assert found.config.get("dim") == (4 if "dim" in params else None)


def test_a_file_that_exists_may_be_enough(tmp_path: Path) -> None:
    found = find(checkpoint(tmp_path, config__json="{}", madeup3__yaml="sample_rate: 24000\n"))
    assert (found.spec.name, found.config) == ("by-yaml", {"sample_rate": 24000})


def test_what_a_file_says_counts_for_more_than_that_another_exists(tmp_path: Path) -> None:
    known = '{"architectures": ["RhapsodeDummy"]}'
    assert find(checkpoint(tmp_path, config__json=known, madeup3__yaml="a: 1\n")).spec is DUMMY


@pytest.mark.parametrize("name", ["talker_small.safetensors", "talker_large.pt"])
def test_the_name_of_a_weight_file_is_enough_where_there_is_no_configuration(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\xff\x00 not JSON")
    found = find(str(tmp_path))
    assert (found.spec.name, found.config) == ("by-weights", {})


def test_a_configuration_counts_for_more_than_the_name_of_a_weight_file(tmp_path: Path) -> None:
    (tmp_path / "talker_small.pt").touch()
    assert find(checkpoint(tmp_path, config__json='{"architectures": ["RhapsodeDummy"]}')).spec is DUMMY


@pytest.mark.parametrize(
    ("config", "fits"),
    [
        ('{"model_type": "b", "size": 7}', True),
        ('{"model_type": ["x", "a"], "size": "7"}', True),
        ('{"model_type": "a"}', False),
        ('{"model_type": "a", "size": 8}', False),
    ],
)
def test_every_key_of_a_layout_must_fit(tmp_path: Path, config: str, fits: bool) -> None:
    folder = checkpoint(tmp_path, config__json=config)
    if fits:
        assert find(folder).spec.name == "by-both"
    else:
        with pytest.raises(UnknownModel, match="model_type: a"):
            find(folder)


def test_a_checkpoint_that_nothing_runs_is_told_what_was_found_and_what_is_known(tmp_path: Path) -> None:
    with pytest.raises(UnknownModel) as caught:
        find(checkpoint(tmp_path, config__json='{"architectures": ["Nobody"]}', params__json='{"model_type": "no"}'))
    message = caught.value.message
    assert "config.json (architectures: Nobody)" in message
    assert "params.json (model_type: no)" in message
    for known in ("RhapsodeDummy", "params.json (model_type: made_up_tts)", "madeup3.yaml", "architecture: voxcpm2"):
        assert known in message


def test_a_folder_without_any_known_file_is_told_which_were_looked_for(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError) as caught:
        find(str(tmp_path))
    for name in ("config.json", "params.json", "madeup3.yaml", "talker_*.safetensors"):
        assert name in caught.value.message


def test_of_the_hub_only_configuration_files_are_fetched_before_the_family_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(hub, "list_files", lambda *_: None)
    monkeypatch.setattr(hub, "fetch", lambda name, files, *_, **__: asked.append(files) or tmp_path)
    checkpoint(tmp_path, config__json="{}", madeup3__yaml="a: 1\n")
    assert find("owner/name").spec.name == "by-yaml"
    weights = {"talker_*.safetensors", "talker_*.pt", "t3_*.safetensors", "t3_*.pt"}
    assert set(asked[0]) == {"madeup3.yaml", "cosyvoice3.yaml", "params.json", "config.json", *weights}
    assert set(asked[1]) == {*hub.FILES, "madeup3.yaml", "llm.pt"}


# --- YAML with tags ---

TAGGED = """
seed: !apply:random.seed [1986]
sample_rate: 24000
llm: !new:cosyvoice.llm.Model
    width: !ref <sample_rate>
    hop: !ref <sample_rate> * 2
    parts: [!name:torch.nn.ReLU {}, 1.5, yes]
danger: !!python/object/apply:os.system ["touch {marker}"]
"""


def test_tags_are_kept_as_data(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(TAGGED)
    found = read_tagged_yaml(tmp_path / "a.yaml")
    assert (found["sample_rate"], found["seed"], found["llm"]["parts"]) == (24000, [1986], [{}, 1.5, True])
    assert isinstance(found["seed"], TaggedList)
    assert isinstance(found["llm"], TaggedMapping)
    assert (found["seed"].tag, found["llm"].tag) == ("!apply:random.seed", "!new:cosyvoice.llm.Model")
    width, hop = found["llm"]["width"], found["llm"]["hop"]
    assert isinstance(width, TaggedText)
    assert (width, width.tag, hop) == ("<sample_rate>", "!ref", "<sample_rate> * 2")


def test_no_tag_is_executed(tmp_path: Path) -> None:
    marker = tmp_path / "executed"
    (tmp_path / "a.yaml").write_text(TAGGED.replace("{marker}", str(marker)))
    found = read_tagged_yaml(tmp_path / "a.yaml")
    assert found["danger"].tag == "tag:yaml.org,2002:python/object/apply:os.system"
    assert not marker.exists()


@pytest.mark.parametrize("text", ["a: [", "a: &x [*x", "- 1", "", "a: 2024-99-99", "[" * 5000, "? [a]\n: 1", "\x00"])
def test_yaml_that_cannot_be_read_is_one_clear_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(CheckpointError, match=r"a\.yaml"):
        read_tagged_yaml(tmp_path / "a.yaml")


def test_a_tagged_node_that_holds_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: &x !new:b {c: *x}\n")
    with pytest.raises(CheckpointError):
        read_tagged_yaml(tmp_path / "a.yaml")


def nested(levels: int, level: str, first: str = "a0: &a0 [1, 1]\n") -> str:
    """YAML in which each level stands for ten of the level before."""
    return first + "".join(level.format(new=f"a{n + 1}", old=f"a{n}") for n in range(levels))


TENFOLD = "{new}: &{new} [" + "*{old}, " * 10 + "]\n"
BOMBS = {
    "aliases": nested(30, TENFOLD),
    "tagged aliases": nested(30, "{new}: &{new} !new:b [" + "*{old}, " * 10 + "]\n"),
    "merged aliases": nested(30, "{new}: &{new} {{<<: [" + "*{old}, " * 10 + "]}}\n", "a0: &a0 {b: 1}\n"),
    "a number by sixties": "a: 1" + ":1" * 50_000,
    "a fraction by sixties": "a: 1" + ":1" * 200 + ".0",
    "a long number": "a: " + "1" * 5_000,
    "a long file": "a: " + "b" * 2**20,
    "brackets": "[" * 50_000,
    "nothing but signs": "&a " * 20_000,
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS)
def test_yaml_that_stands_for_more_than_it_says_is_refused_at_once(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.yaml").write_text(text)
    started_s = time.process_time()
    with pytest.raises(CheckpointError, match=r"a\.yaml"):
        read_tagged_yaml(tmp_path / "a.yaml")
    assert time.process_time() - started_s < 5


@pytest.mark.parametrize(
    "level", ["{new}: [" + "!ref <{old}>, " * 10 + "]\n", "{new}: !ref <{old}> * <{old}>\n"], ids=["lists", "products"]
)
def test_references_that_stand_for_too_much_are_refused_at_once(tmp_path: Path, level: str) -> None:
    (tmp_path / "a.yaml").write_text(nested(30, level, "a0: 7\n"))
    content, started_s = read_tagged_yaml(tmp_path / "a.yaml"), time.process_time()
    with pytest.raises(CheckpointError):
        resolved(content["a30"], content)
    assert time.process_time() - started_s < 5


def no_network(*_: Any) -> Any:
    raise AssertionError("nothing is fetched for a folder")


def test_a_folder_needs_no_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "fetch", no_network)
    assert find(checkpoint(tmp_path, params__json='{"model_type": "made_up_tts"}')).spec.name == "by-params"
