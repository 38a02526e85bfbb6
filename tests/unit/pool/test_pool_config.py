"""The configuration of several models in one server."""

from pathlib import Path

import pytest
import yaml

from rhapsode.config import layered
from rhapsode.config.pool import PoolConfig, pooled
from rhapsode.errors import ConfigError


def test_keys_beside_models_are_for_every_model_that_does_not_set_them() -> None:
    config = pooled(
        {
            "device": "cpu",
            "limits": {"max_concurrency": 4, "max_queue": 7},
            "models": {"a": None, "b": {"deployment": {"model": "dummy", "limits": {"max_concurrency": 2}}}},
            "server": {"idle_unload_s": 60, "model_aliases": ["x"]},
        }
    )
    a, b = config.deployment("a"), config.deployment("b")
    assert (a.model, a.device, a.limits.max_concurrency, a.limits.max_queue) == ("a", "cpu", 4, 7)
    assert (b.model, b.device, b.limits.max_concurrency, b.limits.max_queue) == ("dummy", "cpu", 2, 7)
    assert b.server.idle_unload_s == 60
    assert b.server.model_aliases == ("x", "b")


def test_a_file_may_set_every_setting_of_the_pool(tmp_path: Path) -> None:
    own = {"cold_start_s": 7.0, "max_waiting": 3, "most_loaded": 2, "memory_bytes": 10**9, "load_pause_s": 1.0}
    assert own.keys() == PoolConfig.model_fields.keys() - {"models", "server"}
    file = tmp_path / "deployment.yaml"
    file.write_text(yaml.safe_dump({"models": {"dummy": None}, **own}))
    assert pooled(layered(file, env={}), file).model_dump(include=set(own)) == own


@pytest.mark.parametrize(
    ("models", "at_start", "always"),
    [
        ({"a": {}, "b": {}}, {"a"}, set()),
        ({"a": {"load": "request"}, "b": {}}, set(), set()),
        ({"a": {}, "b": {"load": "start"}}, {"a", "b"}, set()),
        ({"a": {"load": "request"}, "b": {"pinned": True}}, {"b"}, {"b"}),
        ({"a": {"pinned": True, "load": "request"}, "b": {}}, {"a"}, {"a"}),
    ],
)
def test_the_first_and_pinned_models_are_loaded_at_the_start(models: dict, at_start: set, always: set) -> None:
    config = pooled({"models": models})
    assert {name for name in models if config.loads_at_start(name)} == at_start
    assert {name for name in models if config.is_always_there(name)} == always


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ({"models": {}}, "models"),
        ({"models": ["a"]}, "keys and values"),
        ({"models": {"a": {"deploymnet": {}}}}, "did you mean 'deployment'"),
        ({"models": {"a": {"deployment": {"modle": "x"}}}}, "did you mean 'model'"),
        ({"models": {"a": "dummy"}}, "keys and values"),
        ({"models": {"a": {}}, "devcie": "cpu"}, "did you mean 'device'"),
        ({"models": {"a": {}}, "model": "dummy"}, "use one of them"),
        ({"models": {"a": {"pinned": True}, "b": {}}, "most_loaded": 1}, "leave no room"),
        ({"models": {"a": {"load": "start"}, "b": {"load": "start"}}, "most_loaded": 1}, "at the start"),
        ({"models": {"a": {}}, "most_loaded": 0}, "most_loaded"),
    ],
)
def test_a_mistake_is_named(content: dict, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        pooled(content)


def test_all_mistakes_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "several.yaml"
    file.write_text("devcie: cpu\nmodels:\n  a: {pinnde: true}\n  b:\n    deployment: {modle: x}\n")
    with pytest.raises(ConfigError) as error:
        pooled(layered(file, env={}), file)
    found = error.value.message.splitlines()
    assert [line.split(": ")[0] for line in found] == [f"{file}:1", f"{file}:3", f"{file}:5"]


def shares(models: dict, **settings) -> dict[str, float | None]:
    config = pooled({"models": models, **settings})
    return {name: config.deployment(name).memory.share for name in models}


PINNED = {"pinned": True}


@pytest.mark.parametrize(
    ("models", "settings", "expected"),
    [
        ({"a": PINNED}, {}, {"a": None}),
        ({"a": PINNED, "b": PINNED}, {}, {"a": 0.5, "b": 0.5}),
        ({"a": PINNED, "b": {}, "c": {}, "d": {}}, {}, dict.fromkeys("abcd", 0.5)),
        ({"a": {}, "b": {}, "c": {}}, {}, dict.fromkeys("abc")),
        ({"a": {}, "b": {}, "c": {}}, {"most_loaded": 2}, dict.fromkeys("abc", 0.5)),
        ({"a": PINNED, "b": PINNED}, {"device": "cpu"}, {"a": None, "b": None}),
        ({"a": PINNED, "b": PINNED | {"deployment": {"device": "cuda:1"}}}, {}, {"a": None, "b": None}),
        (
            {"a": PINNED | {"deployment": {"memory": {"share": 0.7}}}, "b": PINNED, "c": {}},
            {},
            {"a": 0.7, "b": pytest.approx(0.15), "c": pytest.approx(0.15)},
        ),
    ],
)
def test_models_that_are_there_at_once_share_a_gpu(models: dict, settings: dict, expected: dict) -> None:
    assert shares(models, **settings) == expected


def test_pinned_models_cannot_have_more_than_the_whole_gpu() -> None:
    most = PINNED | {"deployment": {"memory": {"share": 0.6}}}
    with pytest.raises(ConfigError, match="at most 1 fits"):
        pooled({"models": {"a": most, "b": most}})
    shares({"a": most, "b": most | {"deployment": {"device": "cuda:1", "memory": {"share": 0.6}}}})


def test_pinned_models_are_loaded_first() -> None:
    config = pooled({"models": {"a": None, "b": PINNED, "c": {"load": "start"}, "d": PINNED, "e": None}})
    assert config.loading_order() == ["b", "d", "a", "c"]
