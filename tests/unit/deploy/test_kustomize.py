"""The overlays build on the manifests, and what they render is what Kubernetes expects."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rhapsode.config import Deployment, resolve
from unit.deploy.sources import KUBERNETES, PAGE, ROOT, dockerfile, image_environment
from unit.deploy.test_validators import KUBERNETES_VERSION

OVERLAYS = ROOT / "deploy/kustomize"
NAMES = sorted(path.name for path in OVERLAYS.iterdir())
Objects = dict[str, list[dict[str, Any]]]


def kustomization(folder: Path) -> dict[str, Any]:
    return yaml.safe_load((folder / "kustomization.yaml").read_text())


@pytest.fixture(scope="module")
def rendered() -> Callable[[str], Objects]:
    """What an overlay makes, by kind."""
    programs = [["kustomize", "build"], ["kubectl", "kustomize"]]
    program = next((words for words in programs if shutil.which(words[0])), None)
    if program is None:
        pytest.skip("needs kustomize or kubectl")

    def render(name: str) -> Objects:
        done = subprocess.run([*program, OVERLAYS / name], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found: Objects = {}
        for one in yaml.safe_load_all(done.stdout):
            found.setdefault(one["kind"], []).append(one)
        return found

    return render


def test_there_is_an_overlay_for_each_kind_of_machine() -> None:
    assert NAMES == ["cluster", "cpu", "gpu"]
    assert all(f"kubectl apply -k deploy/kustomize/{name}" in PAGE.read_text() for name in NAMES)


@pytest.mark.parametrize("folder", [KUBERNETES, *(OVERLAYS / name for name in NAMES)], ids=lambda path: path.name)
def test_everything_that_is_named_is_there(folder: Path) -> None:
    given = kustomization(folder)
    assert (given["apiVersion"], given["kind"]) == ("kustomize.config.k8s.io/v1beta1", "Kustomization")
    places = [folder / name for name in given["resources"]]
    assert all(place.is_file() or (place / "kustomization.yaml").is_file() for place in places)
    base = [
        one
        for name in kustomization(KUBERNETES)["resources"]
        for one in yaml.safe_load_all((KUBERNETES / name).read_text())
    ]
    there = {(one["kind"], one["metadata"]["name"]) for one in base}
    for patch in given.get("patches", ()):
        assert {(kind, patch["target"]["name"]) for kind in patch["target"]["kind"].split("|")} <= there


@pytest.mark.parametrize("name", NAMES)
def test_what_is_rendered_has_the_form_that_kubernetes_expects(rendered, name: str) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    found = rendered(name)
    for kind, objects in found.items():
        for one in objects:
            if kind != "RayService":  # its pods are checked in test_validators.py
                kubernetes_validate.validate(one, KUBERNETES_VERSION, strict=True)


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_images_are_stages_of_the_dockerfile(rendered, name: str) -> None:
    pod = rendered(name)["Deployment"][0]["spec"]["template"]["spec"]
    tags = {one["image"].rsplit(":", 1)[1] for one in (*pod["containers"], *pod["initContainers"])}
    assert len(tags) == 1
    assert tags <= {one.stage for one in dockerfile()}


def limits_of(found: Objects) -> dict[str, Any]:
    return found["Deployment"][0]["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]


def test_only_nodes_with_a_gpu_are_asked_for_one(rendered) -> None:
    assert limits_of(rendered("gpu"))["nvidia.com/gpu"] == 1
    assert "nvidia.com/gpu" not in limits_of(rendered("cpu"))


@pytest.mark.parametrize(("name", "device"), [("cpu", "cpu"), ("gpu", "cuda")])
def test_the_configuration_is_one_that_the_server_reads(rendered, tmp_path: Path, name: str, device: str) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text(rendered(name)["ConfigMap"][0]["data"]["deployment.yaml"])
    deployment = resolve(file, image_environment())
    assert isinstance(deployment, Deployment)
    assert deployment.device == device
    pod = rendered(name)["Deployment"][0]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > deployment.server.drain_timeout_s


def test_the_cluster_has_the_volumes_of_the_base_and_none_of_its_pods(rendered) -> None:
    found = rendered("cluster")
    assert found.keys() == {"RayService", "NetworkPolicy", "PersistentVolumeClaim"}
    claims = {one["metadata"]["name"] for one in found["PersistentVolumeClaim"]}
    cluster = found["RayService"][0]["spec"]["rayClusterConfig"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        volumes = group["template"]["spec"]["volumes"]
        assert {
            one["persistentVolumeClaim"]["claimName"] for one in volumes if "persistentVolumeClaim" in one
        } <= claims
