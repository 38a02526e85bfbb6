"""The file of a cluster: models by name, each with a deployment; one server section for all."""

from pathlib import Path

import pytest

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


def test_what_a_replica_is_given_makes_the_same_deployment_again() -> None:
    limits = {"max_concurrency": "auto", "max_queue": 3}
    own = {"deployment": {"limits": limits, "lexicon": "words.yaml", "server": {"audit": "audit.jsonl"}}}
    config = read(models={"dummy": own}, server={"api_keys": "sk-one,sk-two", "max_batch": 3})
    deployment = config.deployment("dummy")
    again = validated(Deployment, as_plain(deployment))
    assert again == deployment
    assert [key.get_secret_value() for key in again.server.api_keys] == ["sk-one", "sk-two"]


def test_an_edge_stays_when_only_a_model_s_deployment_changes() -> None:
    def edge(**model) -> dict:
        return as_plain(read(models={"dummy": model}, server={"port": 1}).for_edge())

    assert edge() == edge(replicas={"min": 2, "max": 5}, deployment={"limits": {"max_queue": 3}}, gpus=1)
    assert edge() != edge(replicas={"min": 0, "max": 1})
    assert validated(ClusterConfig, edge()).models.keys() == {"dummy"}
