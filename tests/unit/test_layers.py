"""Imports run one way: families stand alone, kernels import no modules, and no files import each other in a circle."""

import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

import rhapsode.models

FAMILIES = sorted(path.parent.name for path in Path(rhapsode.models.__path__[0]).glob("*/spec.py"))
ABOVE = {f"rhapsode.{name}" for name in ("engine", "serve", "tts", "cli", "bench", "cluster", "edge", "pool")}


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(
        "rhapsode", include_external_packages=True, exclude_type_checking_imports=True, cache_dir=None
    )


@pytest.fixture(scope="module")
def whole_graph() -> grimp.ImportGraph:
    """With imports for type checkers and inside functions."""
    return grimp.build_graph("rhapsode", cache_dir=None)


def imports_of(graph: grimp.ImportGraph, package: str) -> set[str]:
    inside = {package, *graph.find_descendants(package)}
    return {target for module in inside for target in graph.find_modules_directly_imported_by(module)}


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def test_the_families_of_the_package_are_here() -> None:
    assert {"dummy", "hibari"} <= set(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_imports_no_other_family(graph: grimp.ImportGraph, family: str) -> None:
    others = {f"rhapsode.models.{other}" for other in FAMILIES} - {f"rhapsode.models.{family}"}
    found = imports_of(graph, f"rhapsode.models.{family}")
    assert "rhapsode.models.base" in found
    assert not {module for module in found if any(within(module, other) for other in others)}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_imports_nothing_above_it(graph: grimp.ImportGraph, family: str) -> None:
    found = imports_of(graph, f"rhapsode.models.{family}")
    assert not {module for module in found if any(within(module, layer) for layer in ABOVE)}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_spec_imports_only_words(graph: grimp.ImportGraph, family: str) -> None:
    found = graph.find_modules_directly_imported_by(f"rhapsode.models.{family}.spec")
    beyond_stdlib = {module for module in found if module.split(".")[0] not in sys.stdlib_module_names}
    assert "rhapsode.models.base" in beyond_stdlib
    assert beyond_stdlib <= {"rhapsode.models.base", "rhapsode.types"}


def test_the_engine_knows_no_family(graph: grimp.ImportGraph) -> None:
    families = {f"rhapsode.models.{family}" for family in FAMILIES}
    found = imports_of(graph, "rhapsode.engine")
    assert "rhapsode.models.base" in found
    assert not {module for module in found if any(within(module, family) for family in families)}


def test_kernels_import_no_modules(whole_graph: grimp.ImportGraph) -> None:
    """A kernel takes tensors, the records its own package defines, and the columns of the sampling table."""
    found = imports_of(whole_graph, "rhapsode.nn.kernels")
    assert "rhapsode.nn.kernels.gpu.launch" in found
    beyond = {module for module in found if not within(module, "rhapsode.nn.kernels")}
    assert beyond <= {"rhapsode.device.trace", "rhapsode.sampling_table"}


def test_no_files_import_each_other_in_a_circle(whole_graph: grimp.ImportGraph) -> None:
    imports = {module: whole_graph.find_modules_directly_imported_by(module) for module in whole_graph.modules}
    assert "rhapsode.models.qwen3_tts.decoder" in imports["rhapsode.models.qwen3_tts.fused"]
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))
