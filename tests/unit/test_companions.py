"""A second repository is found beside the checkpoint, where the deployment says, or on the hub."""

from dataclasses import replace
from pathlib import Path

import pytest

from rhapsode.checkpoints import hub
from rhapsode.config import resolve
from rhapsode.engine import Engine, Source
from rhapsode.errors import CheckpointError, ConfigError
from rhapsode.models.base import Companion, StageContext
from rhapsode.models.companions import find_companions
from rhapsode.models.dummy.codec import DummyCodec
from rhapsode.models.dummy.spec import SPEC as DUMMY

CODEC = Companion("codec", default="owner/codec", files=("*.bin",))
SPEC = replace(DUMMY, name="two-repositories", companions=(CODEC,))
LONELY = replace(SPEC, companions=(replace(CODEC, default=None),))


@pytest.fixture
def downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[str, ...]]]:
    asked: list[tuple[str, tuple[str, ...]]] = []
    monkeypatch.setattr(hub, "fetch", lambda name, files, **_: asked.append((name, files)) or tmp_path / "cache")
    return asked


def test_a_subfolder_of_the_checkpoint_comes_before_the_hub(tmp_path: Path, downloads: list) -> None:
    (tmp_path / "codec").mkdir()
    assert find_companions(SPEC, tmp_path, {}) == {"codec": tmp_path / "codec"}
    assert downloads == []


def test_what_the_deployment_says_comes_before_both(tmp_path: Path, downloads: list) -> None:
    (tmp_path / "codec").mkdir()
    (tmp_path / "other").mkdir()
    assert find_companions(SPEC, tmp_path, {"codec": str(tmp_path / "other")}) == {"codec": tmp_path / "other"}
    assert find_companions(SPEC, tmp_path, {"codec": "somebody/else@v2"}) == {"codec": tmp_path / "cache"}
    assert downloads == [("somebody/else@v2", (*hub.FILES, "*.bin"))]


def test_the_default_is_fetched_from_the_hub(tmp_path: Path, downloads: list) -> None:
    assert find_companions(SPEC, None, {}) == {"codec": tmp_path / "cache"}
    assert downloads == [("owner/codec", (*hub.FILES, "*.bin"))]


def test_a_companion_that_is_nowhere_says_where_it_may_be(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"two-repositories needs its codec.*companions\.codec") as caught:
        find_companions(LONELY, tmp_path, {})
    assert str(tmp_path / "codec") in caught.value.message


def test_a_place_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"companions\.codec is '/no/such/folder'"):
        find_companions(SPEC, tmp_path, {"codec": "/no/such/folder"})


NAMED = replace(SPEC, companions=(replace(CODEC, named_by="tokenizer_path"),))


def test_a_folder_with_the_name_in_the_config_is_found_in_the_checkpoint_and_beside_it(
    tmp_path: Path, downloads: list
) -> None:
    checkpoint, config = tmp_path / "talker", {"tokenizer_path": "someone/the-codec@v1"}
    checkpoint.mkdir()
    assert find_companions(NAMED, checkpoint, {}, config) == {"codec": tmp_path / "cache"}
    assert downloads == [("someone/the-codec@v1", (*hub.FILES, "*.bin"))]
    (tmp_path / "the-codec").mkdir()
    assert find_companions(NAMED, checkpoint, {}, config) == {"codec": tmp_path / "the-codec"}
    (checkpoint / "the-codec").mkdir()
    assert find_companions(NAMED, checkpoint, {}, config) == {"codec": checkpoint / "the-codec"}


@pytest.mark.parametrize("name", ["/etc", "../secrets", "a/../b", "one", 7, None])
def test_a_config_can_name_no_path(tmp_path: Path, downloads: list, name: object) -> None:
    assert find_companions(NAMED, tmp_path, {}, {"tokenizer_path": name}) == {"codec": tmp_path / "cache"}
    assert downloads == [("owner/codec", (*hub.FILES, "*.bin"))]


def test_an_unknown_companion_of_a_deployment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no companion 'kodec': did you mean 'codec'\?"):
        find_companions(SPEC, tmp_path, {"kodec": "a/b"})


class CodecElsewhere(DummyCodec):
    found: Path

    def __init__(self, context: StageContext) -> None:
        type(self).found = context.companion("codec")
        super().__init__(context)


def test_a_factory_gets_the_folder_and_an_undeclared_one_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "codec").mkdir()
    *others, vocode = SPEC.pipeline
    elsewhere = replace(vocode, factory=f"{__name__}:CodecElsewhere")
    spec = replace(SPEC, pipeline=(*others, elsewhere))
    deployment = resolve(env={}, flags={"model": "dummy", "device": "cpu", "limits": {"max_concurrency": 1}})
    Engine(spec, deployment, Source(tmp_path, {}))
    assert CodecElsewhere.found == tmp_path / "codec"
    with pytest.raises(ConfigError, match="declares no companion 'vocoder'"):
        StageContext(spec, tmp_path, {}, "cpu", "float32", companions={"codec": tmp_path}).companion("vocoder")


ELSEWHERE = replace(SPEC, companions=(replace(CODEC, named_by="processor.json:audio.path"),))


def test_a_key_inside_another_file_of_the_checkpoint_may_name_it(tmp_path: Path, downloads: list) -> None:
    checkpoint = tmp_path / "talker"
    checkpoint.mkdir()
    find_companions(ELSEWHERE, checkpoint, {})  # the file is not there
    (checkpoint / "processor.json").write_text('{"audio": {"path": "someone/the-codec"}}')
    find_companions(ELSEWHERE, checkpoint, {})
    assert [name for name, _ in downloads] == ["owner/codec", "someone/the-codec"]
    (checkpoint / "processor.json").write_text('{"audio": {"path": "../the-codec"}}')
    (tmp_path / "the-codec").mkdir()
    assert find_companions(ELSEWHERE, checkpoint, {}) == {"codec": tmp_path / "the-codec"}


@pytest.mark.parametrize("path", ["..", "a/..", "/", ".", ""])
def test_a_path_without_a_last_part_names_nothing(tmp_path: Path, downloads: list, path: str) -> None:
    assert find_companions(NAMED, tmp_path, {}, {"tokenizer_path": path}) == {"codec": tmp_path / "cache"}


def test_a_folder_of_its_name_beside_the_checkpoint_comes_before_the_hub(tmp_path: Path, downloads: list) -> None:
    checkpoint = tmp_path / "talker"
    checkpoint.mkdir()
    (tmp_path / "codec").mkdir()
    assert find_companions(SPEC, checkpoint, {}) == {"codec": tmp_path / "codec"}
    assert downloads == []
