"""The file of a cluster: models by name, each with a deployment; one server section for all."""

import os
import stat
from pathlib import Path

import pytest

from rhapsode.cluster.key_files import keys_in_files
from rhapsode.config import Deployment, validated
from rhapsode.config.cluster import ClusterConfig, as_plain, read_cluster
from rhapsode.errors import ConfigError


def read(**content) -> ClusterConfig:
    return read_cluster(content, env={})


def test_a_model_s_name_stands_for_the_model() -> None:
    config = read(models={"dummy": None, "mine": {"deployment": {"model": "dummy"}}})
    assert [config.deployment(name).model for name in config.models] == ["dummy", "dummy"]
    assert config.deployment("mine").server.model_aliases == ("mine",)


def test_the_server_section_is_for_all_and_a_model_overrides_single_keys() -> None:
    own = {"deployment": {"server": {"max_batch": 2}}}
    config = read(models={"dummy": own, "rhapsode-nano": {}}, server={"max_batch": 4, "max_voices": 5})
    assert [config.deployment(name).server.max_batch for name in config.models] == [2, 4]
    assert [config.deployment(name).server.max_voices for name in config.models] == [5, 5]


def test_replicas_keep_idle_connections_as_long_as_the_edge_believes() -> None:
    own = {"deployment": {"server": {"keep_alive_s": 1}}}
    config = read(models={"dummy": own, "rhapsode-nano": {}}, server={"keep_alive_s": 600})
    assert [config.deployment(name).server.keep_alive_s for name in config.models] == [600, 600]


def test_one_number_of_replicas_is_both_limits() -> None:
    found = read(models={"a": {"replicas": 3}, "b": {"replicas": {"min": 0, "max": 2}}}).models
    assert [(model.replicas.min, model.replicas.max) for model in found.values()] == [(3, 3), (0, 2)]


def test_a_file_is_overridden_by_variables_and_both_by_what_is_given(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("models: {dummy: {}}\nserver: {port: 1, host: 0.0.0.0, max_batch: 1}\n")
    env = {"RHAPSODE_SERVER__PORT": "2", "RHAPSODE_SERVER__API_KEYS": "a,b", "RHAPSODE_MODEL": "of-another-command"}
    server = read_cluster({"file": file, "server": {"port": 3}}, env=env).server
    assert (server.port, server.host, len(server.api_keys)) == (3, "0.0.0.0", 2)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({}, "'models'"),
        ({"models": {}}, "'models'"),
        ({"models": {"a": {"replica": 1}}}, "did you mean 'replicas'?"),
        ({"models": {"a": {"deployment": {"devise": "cpu"}}}}, "did you mean 'device'?"),
        ({"models": {"a": {"replicas": {"min": 2, "max": 1}}}}, "replicas.min is more than replicas.max"),
        ({"models": {"a": 3}}, "'models.a'"),
        ({"models": {"a": {}}, "server": {"api_keys": [""]}}, "api_keys"),
    ],
)
def test_what_is_wrong_is_one_sentence(content: dict, said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace("?", r"\?")) as found:
        read(**content)
    assert "\n" not in found.value.message


def test_the_example_is_valid() -> None:
    config = read_cluster({"file": Path(__file__).parents[3] / "examples" / "cluster.yaml"}, env={})
    assert list(config.models) == ["rhapsode-nano", "dummy"]
    assert config.deployment("rhapsode-nano").limits.max_concurrency == 8


def test_what_a_replica_is_given_makes_the_same_deployment_again(tmp_path: Path) -> None:
    limits = {"max_concurrency": "auto", "max_queue": 3}
    own = {"deployment": {"limits": limits, "lexicon": "words.yaml", "server": {"audit": "audit.jsonl"}}}
    keys = tmp_path / "keys"
    keys.write_text("sk-one\nsk-two\n")
    config = read(models={"dummy": own}, server={"api_keys_file": str(keys), "max_batch": 3})
    deployment = config.deployment("dummy")
    assert "sk-" not in str(as_plain(deployment))
    again = validated(Deployment, as_plain(deployment))
    assert again == deployment
    assert [key.get_secret_value() for key in again.server.api_keys] == ["sk-one", "sk-two"]


def test_an_edge_stays_when_only_a_model_s_deployment_changes() -> None:
    def edge(**model) -> dict:
        return as_plain(read(models={"dummy": model}, server={"port": 1}).for_edge())

    assert edge() == edge(replicas={"min": 2, "max": 5}, deployment={"limits": {"max_queue": 3}}, gpus=1)
    assert edge() != edge(replicas={"min": 0, "max": 1})
    assert validated(ClusterConfig, edge()).models.keys() == {"dummy"}


def test_keys_that_are_in_no_file_never_go_to_ray() -> None:
    config = read(models={"dummy": {}, "own": {"deployment": {"server": {"api_keys": "sk-own"}}}}, server={"port": 1})
    assert as_plain(config.deployment("dummy"))["server"].keys() == {"port", "model_aliases"}
    with pytest.raises(ConfigError, match=r"server\.api_keys_file"):
        as_plain(config.deployment("own"))
    with pytest.raises(ConfigError, match=r"server\.api_keys_file"):
        as_plain(read(models={"dummy": {}}, server={"api_keys": "sk-one"}).for_edge())


def test_on_one_machine_keys_are_moved_to_files_of_this_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RHAPSODE_SERVER__API_KEYS", "sk-one,sk-two")
    own = {"deployment": {"model": "dummy", "server": {"api_keys": "sk-own"}}}
    with keys_in_files(read_cluster({"models": {"dummy": {}, "own": own}})) as config:
        assert "RHAPSODE_SERVER__API_KEYS" not in os.environ
        contents = [as_plain(config.for_edge()), *(as_plain(config.deployment(name)) for name in config.models)]
        assert "sk-" not in str(contents)
        files = [Path(content["server"]["api_keys_file"]) for content in contents]
        assert [stat.S_IMODE(file.stat().st_mode) for file in (*files, files[0].parent)] == [0o600] * 3 + [0o700]
        read_again = [validated(Deployment, content).server.api_keys for content in contents[1:]]
        assert [[key.get_secret_value() for key in keys] for keys in read_again] == [["sk-one", "sk-two"], ["sk-own"]]
    assert not files[0].parent.exists()
    assert os.environ["RHAPSODE_SERVER__API_KEYS"] == "sk-one,sk-two"
