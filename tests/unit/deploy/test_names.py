"""Every command, option, variable, port, route and metric that a deployment names exists."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from rhapsode.cli.main import app
from rhapsode.config import Deployment, resolve
from rhapsode.errors import ConfigError
from rhapsode.serve.app import create_app
from unit.deploy.sources import (
    KUBERNETES,
    PAGE,
    ROOT,
    compose,
    config_map,
    container,
    dockerfile,
    image_environment,
    manifest,
    manifests,
    page_commands,
    pod,
    unit,
)

RUNS_RHAPSODE = re.compile(r"(\S*/)?rhapsode")


def parse(arguments: list[str]) -> str:
    """Parses a command line as `rhapsode` would, and runs nothing; returns the command's name."""
    command: Any = typer.main.get_command(app)
    name, context = "rhapsode", None
    while hasattr(command, "resolve_command"):
        context = command.make_context(name, list(arguments), parent=context)
        name, command, arguments = command.resolve_command(context, [*context._protected_args, *context.args])
    return str(command.make_context(name, list(arguments), parent=context).info_name)


def after_image(words: list[str]) -> list[str]:
    """What `docker run` gives to the image's entry point: everything after the image's name."""
    image = next(i for i, word in enumerate(words) if re.fullmatch(r"rhapsode:\w+", word))
    rest = words[image + 1 :]
    return rest[: rest.index(">")] if ">" in rest else rest


def command_lines() -> dict[str, list[str]]:
    entry = {one.name: json.loads(one.value) for one in dockerfile() if one.name in ("ENTRYPOINT", "CMD")}
    assert entry["ENTRYPOINT"] == ["tini", "--", "rhapsode"]
    found = {"Dockerfile": entry["CMD"], "Deployment": container()["args"]}
    for name, service in compose()["services"].items():
        found[f"compose {name}"] = [re.sub(r"\$\{\w+:-(.*)\}", r"\1", word) for word in service["command"]]
    program, *arguments = shlex.split(unit("Service", "ExecStart")[0])
    assert RUNS_RHAPSODE.fullmatch(program)
    found["unit"] = arguments
    for i, words in enumerate(page_commands()):
        if RUNS_RHAPSODE.fullmatch(words[0]):
            found[f"page {i}"] = words[1:]
        elif words[:2] == ["docker", "run"]:
            found[f"page {i}"] = after_image(words) or entry["CMD"]
    return found


@pytest.mark.parametrize("where", command_lines())
def test_every_command_line_is_one_that_rhapsode_accepts(where: str) -> None:
    arguments = command_lines()[where]
    assert parse(arguments) in arguments


def test_a_command_line_with_an_unknown_option_is_found() -> None:
    with pytest.raises(Exception, match=r"(?i)no such option"):
        parse(["serve", "--listen", "0.0.0.0"])


def variables() -> dict[str, dict[str, str]]:
    deployment = {one["name"]: one.get("value", "KEY") for one in container()["env"]}
    found = {"Dockerfile": image_environment(), "Deployment": deployment}
    for name, service in compose()["services"].items():
        found[f"compose {name}"] = {key: value or "KEY" for key, value in service["environment"].items()}
    found["unit"] = dict(line.split("=", 1) for line in unit("Service", "Environment"))
    text = PAGE.read_text()
    found["page"] = {name: value or "KEY" for name, value in re.findall(r"(RHAPSODE_[A-Z_]+)=([\w,.-]*)", text)}
    return found


@pytest.mark.parametrize("where", variables())
def test_every_variable_is_a_key_of_the_configuration(where: str) -> None:
    ours = {name: value.strip(".") or "KEY" for name, value in variables()[where].items() if name.startswith("RHAP")}
    assert ours
    resolve(None, ours)


def test_the_variables_of_kubernetes_service_links_would_be_refused_so_they_are_off() -> None:
    with pytest.raises(ConfigError):
        resolve(None, {"RHAPSODE_PORT": "tcp://10.0.0.1:80"})
    assert pod()["enableServiceLinks"] is False


def deployment(tmp_path: Path) -> Deployment:
    """The configuration of the pods: the file of the config map under the image's variables."""
    file = tmp_path / "deployment.yaml"
    file.write_text(config_map())
    return resolve(file, image_environment())


def test_ports_are_the_one_that_the_server_listens_on(tmp_path: Path) -> None:
    port = deployment(tmp_path).server.port
    assert [one.value for one in dockerfile() if one.name == "EXPOSE"] == [str(port)]
    assert container()["ports"] == [{"name": "http", "containerPort": port}]
    assert manifest("rhapsode.yaml", "Service")["spec"]["ports"][0]["targetPort"] == "http"
    annotations = manifest("rhapsode.yaml", "Deployment")["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(port)
    for service in compose()["services"].values():
        assert service["ports"] == [f"127.0.0.1:{port}:{port}"]


def test_probes_ask_routes_that_exist() -> None:
    served = create_app(Deployment(model="dummy")).openapi()["paths"]
    probes = [value["httpGet"] for key, value in container().items() if key.endswith("Probe")]
    assert len(probes) == 3
    check = next(one.value for one in dockerfile() if one.name == "HEALTHCHECK")
    asked = [*(probe["path"] for probe in probes), re.search(r"PORT(/\w+)", check)[1], "/metrics"]
    assert set(asked) <= set(served)
    assert {probe["port"] for probe in probes} == {"http"}


def test_metrics_that_are_scaled_on_or_watched_exist() -> None:
    text = create_app(Deployment(model="dummy")).state.service.metrics.text().decode()
    known = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    rule = manifests("prometheus-adapter.yaml")[0]["rules"]["custom"][0]
    assert manifest("autoscaling.yaml", "HorizontalPodAutoscaler")["spec"]["metrics"][0]["pods"]["metric"] == {
        "name": rule["name"]["as"]
    }
    asked = re.findall(r"(rhapsode_\w+)\{", rule["metricsQuery"] + rule["seriesQuery"])
    watched = re.findall(r"`(rhapsode_\w+)(?:\{.*?\})?`", PAGE.read_text())
    assert len(asked) == 4
    assert {*asked, *watched} - {rule["name"]["as"]} <= known


def test_a_pod_is_killed_only_after_it_had_time_to_drain(tmp_path: Path) -> None:
    drain_s = deployment(tmp_path).server.drain_timeout_s
    pause_s = container()["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod()["terminationGracePeriodSeconds"] > drain_s + pause_s
    default_s = Deployment().server.drain_timeout_s
    assert float(unit("Service", "TimeoutStopSec")[0]) > default_s
    for service in compose()["services"].values():
        assert float(service["stop_grace_period"].rstrip("s")) > default_s


def test_idle_connections_are_kept_as_long_as_the_server_keeps_them() -> None:
    """Ray's proxy, which has a setting of its own, lets go of a client no sooner; nothing else sets another time."""
    kept_s = Deployment(model="dummy").server.keep_alive_s
    assert kept_s == 75
    proxy = yaml.safe_load(manifest("rayservice.yaml", "RayService")["spec"]["serveConfigV2"])["http_options"]
    assert proxy["keep_alive_timeout_s"] == kept_s
    deployed = [ROOT / "Dockerfile", ROOT / "compose.yaml", *(ROOT / "deploy").rglob("*")]
    text = "".join(path.read_text("utf-8") for path in deployed if path.is_file())
    assert re.findall(r"keep_alive\w*", text, re.IGNORECASE) == ["keep_alive_timeout_s"]


def test_folders_that_are_mounted_are_those_that_the_server_writes_to() -> None:
    made = next(one.value for one in dockerfile() if "install -d" in one.value)
    environment = image_environment()
    written = {
        environment[name] for name in ("RHAPSODE_SERVER__VOICES", "HF_HOME", "TRITON_CACHE_DIR", "XDG_CACHE_HOME")
    }
    assert all(f" {folder}" in made for folder in written)
    assert written <= {mount["mountPath"] for mount in container()["volumeMounts"]}
    for service in compose()["services"].values():
        assert written == {volume.split(":")[1] for volume in service["volumes"]}


def test_the_service_keeps_what_it_writes_in_its_own_folders() -> None:
    assert (unit("Service", "StateDirectoryMode"), unit("Service", "CacheDirectoryMode")) == (["0700"], ["0700"])
    folders = dict(line.split("=", 1) for line in unit("Service", "Environment"))
    assert folders.keys() == {"RHAPSODE_SERVER__VOICES", "TRITON_CACHE_DIR", "XDG_CACHE_HOME", "HF_HOME"}
    for name, path in folders.items():
        assert Path(path).is_relative_to("/var/lib/rhapsode" if "VOICES" in name else "/var/cache/rhapsode")


def test_what_the_image_copies_is_in_the_repository_and_not_ignored() -> None:
    kept = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"}
    copied = [one.value.split()[:-1] for one in dockerfile() if one.name == "COPY" and "--from" not in one.value]
    assert {name for names in copied for name in names} == kept
    assert all((ROOT / name).exists() for name in kept)


def test_stages_that_are_built_exist() -> None:
    stages = {one.stage for one in dockerfile()}
    targets = {service["build"]["target"] for service in compose()["services"].values()}
    targets |= set(re.findall(r"--target (\S+)", PAGE.read_text() + (ROOT / "Dockerfile").read_text()))
    assert {"cpu", "cuda", "cuda-kernels"} == targets
    assert targets <= stages


def test_the_server_runs_as_a_user_that_is_not_root() -> None:
    users = {one.stage: one.value for one in dockerfile() if one.name == "USER"}
    user = str(pod()["securityContext"]["runAsUser"])
    assert users == {"cpu": user, "cuda": user}
    assert any(f"useradd --uid {user} " in one.value for one in dockerfile())


def test_files_that_the_page_names_exist() -> None:
    text = PAGE.read_text()
    linked = re.findall(r"\]\((\.\./[^)#]+)", text)
    named = re.findall(r"(?:deploy|examples)/[\w./-]+", text)
    assert len(linked) > 4
    assert all((PAGE.parent / path).exists() for path in linked)
    assert all((ROOT / path).exists() for path in named)
    assert {path.name for path in KUBERNETES.iterdir()} == {
        Path(path).name for path in re.findall(r"deploy/kubernetes/[\w.-]+\.yaml", text)
    }
