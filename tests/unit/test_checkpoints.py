"""Checkpoints: one file or many, straight into place; whatever is wrong is one error that names it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
import torch
from huggingface_hub import errors
from torch import nn

from rhapsode.checkpoints import hub
from rhapsode.checkpoints.folder import parse
from rhapsode.checkpoints.load import load
from rhapsode.checkpoints.random import randomize
from rhapsode.checkpoints.tokenizer import added_tokens
from rhapsode.checkpoints.weights import Weights
from rhapsode.errors import CheckpointError, UnknownModel
from rhapsode.models import registry
from tiny.weights import save
from unit.command import python

# --- a module and its file ---


class Fused(nn.Linear):
    def __init__(self, into: int, sizes: tuple[int, ...]) -> None:
        super().__init__(into, sum(sizes))
        self.sizes = sizes


class Stacked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(3, 5, 4))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = Fused(4, (6, 2, 2))
        self.mlp = nn.ModuleDict({"gate_up": Fused(4, (3, 3))})
        self.heads = Stacked()
        self.norm = nn.LayerNorm(4, bias=False)
        self.tied = nn.Embedding(7, 4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.tied.weight
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("table", torch.arange(5, device="cpu"), persistent=False)


def parts(prefix: str = "net.") -> dict[str, np.ndarray]:
    shapes = {"q_proj": 6, "k_proj": 2, "v_proj": 2, "mlp.gate_proj": 3, "mlp.up_proj": 3}
    rng = np.random.default_rng(0)
    tensors = {f"{name}.weight": rng.normal(size=(rows, 4)) for name, rows in shapes.items()}
    tensors |= {f"{name}.bias": rng.normal(size=rows) for name, rows in shapes.items()}
    tensors |= {f"heads.{i}.weight": rng.normal(size=(5, 4)) for i in range(3)}
    tensors |= {"norm.weight": rng.normal(size=4), "tied.weight": rng.normal(size=(7, 4))}
    tensors |= {"head.weight": tensors["tied.weight"]}
    made = {f"{prefix}{name}": value.astype(np.float32) for name, value in tensors.items()}
    return made | {f"{prefix}count": np.array(3), "other.weight": np.zeros(2, np.float32)}


def net() -> Net:
    with torch.device("meta"):
        return Net()


def filled(folder: Path, **settings: Any) -> Net:
    made = net()
    load(made, folder, prefix="net.", **settings)
    return made


@pytest.mark.parametrize("shards", [1, 3])
def test_every_tensor_comes_to_its_place(tmp_path: Path, shards: int) -> None:
    tensors = parts()
    save(tmp_path, tensors, shards)
    made = filled(tmp_path)
    joined = np.concatenate([tensors[f"net.{x}_proj.weight"] for x in "qkv"])
    np.testing.assert_array_equal(made.qkv.weight, joined)
    np.testing.assert_array_equal(made.qkv.bias, np.concatenate([tensors[f"net.{x}_proj.bias"] for x in "qkv"]))
    gate_up = [tensors[f"net.mlp.{x}_proj.weight"] for x in ("gate", "up")]
    np.testing.assert_array_equal(made.mlp["gate_up"].weight, np.concatenate(gate_up))
    np.testing.assert_array_equal(made.heads.weight, np.stack([tensors[f"net.heads.{i}.weight"] for i in range(3)]))
    np.testing.assert_array_equal(made.norm.weight, tensors["net.norm.weight"])
    assert made.count == 3


def test_a_checkpoint_may_have_names_of_its_own_and_layers_that_it_has_fused(tmp_path: Path) -> None:
    tensors = parts()
    fused = {leaf: np.concatenate([tensors.pop(f"net.{p}_proj.{leaf}") for p in "qkv"]) for leaf in ("weight", "bias")}
    tensors |= {f"net.attention.wqkv.{leaf}": array for leaf, array in fused.items()}
    for ours, theirs in (("gate_proj", "w1"), ("up_proj", "w3")):
        tensors |= {f"net.feed.{theirs}.{leaf}": tensors.pop(f"net.mlp.{ours}.{leaf}") for leaf in ("weight", "bias")}
    names = {"qkv": "attention.wqkv", "mlp.gate_proj": "feed.w1", "mlp.up_proj": "feed.w3"}
    save(tmp_path, tensors)
    made = filled(tmp_path, names=names)
    np.testing.assert_array_equal(made.qkv.weight, fused["weight"])
    np.testing.assert_array_equal(made.mlp["gate_up"].weight[:3], tensors["net.feed.w1.weight"])
    del tensors["net.attention.wqkv.bias"]
    save(tmp_path, tensors)
    with pytest.raises(CheckpointError, match=r"lacks the tensor 'net\.attention\.wqkv\.bias' \[10\]"):
        filled(tmp_path, names=names)


def test_buffers_that_are_in_no_file_keep_their_values(tmp_path: Path) -> None:
    save(tmp_path, parts())
    assert filled(tmp_path).table.tolist() == [0, 1, 2, 3, 4]


def test_tied_parameters_are_read_once(tmp_path: Path) -> None:
    save(tmp_path, parts())
    made = filled(tmp_path)
    assert made.head.weight.data_ptr() == made.tied.weight.data_ptr()


def test_numbers_become_the_type_that_is_asked_for_and_counts_stay_counts(tmp_path: Path) -> None:
    save(tmp_path, parts())
    made = filled(tmp_path, dtype=torch.bfloat16)
    assert {p.dtype for p in made.parameters()} == {torch.bfloat16}
    assert made.count.dtype == torch.int64


def test_nothing_that_was_loaded_is_trained(tmp_path: Path) -> None:
    save(tmp_path, parts())
    assert not any(p.requires_grad for p in filled(tmp_path).parameters())


# --- what can be wrong ---


def broken(folder: Path, change: dict[str, np.ndarray | None], **settings: Any) -> str:
    tensors = {name: value for name, value in (parts() | change).items() if value is not None}
    save(folder, tensors)
    with pytest.raises(CheckpointError) as caught:
        filled(folder, **settings)
    return caught.value.message


def test_a_wrong_shape_names_file_tensor_and_both_shapes(tmp_path: Path) -> None:
    message = broken(tmp_path, {"net.norm.weight": np.zeros(5, np.float32)})
    assert f"{tmp_path}/model.safetensors: 'net.norm.weight' is [5], the config asks for [4]." in message


def test_a_wrong_part_of_a_fused_parameter_is_named_itself(tmp_path: Path) -> None:
    message = broken(tmp_path, {"net.k_proj.weight": np.zeros((3, 4), np.float32)})
    assert "'net.k_proj.weight' is [3, 4], the config asks for [2, 4]." in message


def test_a_wrong_one_of_a_list_is_named_itself(tmp_path: Path) -> None:
    message = broken(tmp_path, {"net.heads.1.weight": np.zeros((5, 3), np.float32)})
    assert "'net.heads.1.weight' is [5, 3], the config asks for [5, 4]." in message


@pytest.mark.parametrize("name", ["net.tied.weight", "net.v_proj.bias", "net.heads.2.weight"])
def test_a_missing_tensor_is_named_with_its_shape(tmp_path: Path, name: str) -> None:
    message = broken(tmp_path, {name: None})
    assert f"{tmp_path} lacks the tensor '{name}' {list(parts()[name].shape)}" in message


def test_a_tensor_nobody_uses_is_an_error_unless_ignored(tmp_path: Path) -> None:
    extra = {"net.extra.weight": np.zeros(2, np.float32)}
    assert "nothing here uses the tensor 'net.extra.weight'" in broken(tmp_path, extra)
    filled(tmp_path, ignore=("extra.*",))


def test_many_problems_are_one_error(tmp_path: Path) -> None:
    message = broken(tmp_path, {"net.norm.weight": None, "net.tied.weight": None, "net.head.weight": None})
    assert "(and 2 more like this)" in message


def test_nothing_is_placed_when_anything_is_wrong(tmp_path: Path) -> None:
    save(tmp_path, {name: value for name, value in parts().items() if name != "net.tied.weight"})
    made = net()
    with pytest.raises(CheckpointError):
        load(made, tmp_path, prefix="net.")
    assert all(p.is_meta for p in made.parameters())


def test_a_folder_without_weights_says_so(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"neither model\.safetensors nor"):
        Weights(tmp_path)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    save(tmp_path, parts(), 3)
    (tmp_path / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(CheckpointError, match="lacks model-00002-of-00003"):
        Weights(tmp_path)


def test_a_shard_that_lacks_what_the_index_promises_is_named(tmp_path: Path) -> None:
    save(tmp_path, parts(), 2)
    index = tmp_path / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    content["weight_map"]["net.ghost"] = "model-00001-of-00002.safetensors"
    index.write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=r"lacks the tensor 'net\.ghost'"):
        Weights(tmp_path)


@pytest.mark.parametrize(
    "file",
    ["../a.safetensors", "/etc/passwd", "..", ".", "", "a\0b", "a\nb", [], ["a"], {}, {"a": 1}, 7, 0.5, None, True],
)
def test_an_index_names_files_of_its_folder_and_nothing_else(tmp_path: Path, file: object) -> None:
    save(tmp_path, parts(), 2)
    index = tmp_path / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    content["weight_map"]["net.ghost"] = file
    index.write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=r"index\.json .*'net\.ghost'.* a file in the same folder"):
        Weights(tmp_path)


@pytest.mark.parametrize("weight_map", [[], ["a"], "model.safetensors", 7, None, True])
def test_an_index_without_a_mapping_is_named(tmp_path: Path, weight_map: object) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(CheckpointError, match=r"index\.json has no 'weight_map'"):
        Weights(tmp_path)


@pytest.mark.parametrize(
    "files",
    [
        {"tokenizer_config.json": {"added_tokens_decoder": {"1": 7}}},
        {"tokenizer_config.json": {"added_tokens_decoder": {"one": {"content": "<a>"}}}},
        {"tokenizer.json": {"added_tokens": [{"id": 1}]}},
        {"tokenizer.json": {"added_tokens": [{"content": "<a>", "id": []}]}},
        {"tokenizer.json": {"added_tokens": 7}},
    ],
)
def test_added_tokens_that_make_no_sense_are_an_error(tmp_path: Path, files: dict[str, object]) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match="added tokens"):
        added_tokens(tmp_path)


def test_a_file_that_is_no_safetensors_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"pickle, perhaps")
    with pytest.raises(CheckpointError, match=r"model\.safetensors is not a readable safetensors file"):
        Weights(tmp_path)


# --- configurations ---


@dataclass(frozen=True)
class Sizes:
    width: int
    rate: float = 0.5
    bins: tuple[int, ...] | None = (1, 2)
    bias: int | None = None


def test_null_is_the_default_unless_the_field_has_a_none_of_its_own() -> None:
    assert parse(Sizes, {"width": 3, "rate": None, "other": 1}, "config.json") == Sizes(3)
    assert parse(Sizes, {"width": 3, "rate": 2, "bins": None}, "config.json") == Sizes(3, 2.0, None)
    assert parse(Sizes, {"width": 3, "bins": [], "bias": 4}, "config.json") == Sizes(3, bins=(), bias=4)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "'width' is missing"),
        ({"width": None}, "'width' is missing"),
        ({"width": 1, "bias": "x"}, "'bias' of config"),
    ],
)
def test_a_missing_or_mistyped_key_is_named(values: dict[str, Any], words: str) -> None:
    with pytest.raises(CheckpointError, match=words):
        parse(Sizes, values, "config.json")


# --- random weights ---


def test_random_weights_need_no_file_and_repeat() -> None:
    one, two, three = net(), net(), net()
    randomize(one, 5)
    randomize(two, 5)
    randomize(three, 6)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert not torch.equal(one.qkv.weight, three.qkv.weight)
    assert all(p.isfinite().all() for p in one.parameters())
    assert one.norm.weight.tolist() == [1.0] * 4
    assert one.table.tolist() == [0, 1, 2, 3, 4]


def test_random_weights_come_in_the_type_that_is_asked_for() -> None:
    made = net()
    randomize(made, dtype=torch.bfloat16)
    assert {p.dtype for p in made.parameters()} == {torch.bfloat16}


# --- the hub ---


@pytest.mark.parametrize("name", ["Qwen/Qwen3-TTS-12Hz-0.6B-Base", "a/b", "owner/name@v1.0"])
def test_owner_and_name_are_an_id(name: str) -> None:
    assert hub.is_id(name)


@pytest.mark.parametrize("name", ["qwen", "./a/b", "../a", "/a/b", "~/a", "a/b/c", "a/", "a\\b", "http://a/b", "a/b c"])
def test_a_path_is_not_taken_for_an_id(name: str) -> None:
    assert not hub.is_id(name)


@pytest.fixture
def downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any, list[str]]]:
    """What was asked of the hub; it answers with a folder."""
    asked: list[tuple[str, Any, list[str]]] = []

    def snapshot_download(name: str, revision: str | None, allow_patterns: list[str], **_: Any) -> str:
        asked.append((name, revision, allow_patterns))
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    monkeypatch.setattr(hub, "list_files", lambda *_: None)
    return asked


def test_a_model_of_the_hub_is_looked_at_before_its_weights_are_fetched(tmp_path: Path, downloads: list[Any]) -> None:
    (tmp_path / "config.json").write_text('{"architectures": ["RhapsodeDummy"]}')
    model = registry.find("owner/name@v2")
    assert model.checkpoint == tmp_path
    (_, _, first), second = downloads
    assert set(first) == {
        layout.config for spec in registry.families()[0].values() for layout in spec.layouts if layout.on_hub
    }
    assert second == ("owner/name", "v2", list(hub.FILES))


def test_a_model_nobody_here_runs_is_not_fetched(tmp_path: Path, downloads: list[Any]) -> None:
    (tmp_path / "config.json").write_text('{"architectures": ["Nobody"]}')
    with pytest.raises(UnknownModel, match="Nobody"):
        registry.find("owner/name")
    assert len(downloads) == 1


def test_a_folder_comes_before_the_hub(tmp_path: Path, downloads: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "owner" / "name").mkdir(parents=True)
    (tmp_path / "owner" / "name" / "config.json").write_text('{"architectures": ["RhapsodeDummy"]}')
    monkeypatch.chdir(tmp_path)
    registry.find("owner/name")
    assert downloads == []


def gone(kind: type[Exception]) -> Exception:
    return kind.__new__(kind)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (errors.RepositoryNotFoundError, "no folder and no model on the Hugging Face hub called 'owner/name@x'"),
        (errors.RevisionNotFoundError, "no revision 'x'"),
        (errors.GatedRepoError, "consent"),
        (errors.LocalEntryNotFoundError, "cannot be reached"),
        (ConnectionError, "could not be downloaded"),
    ],
)
def test_what_goes_wrong_with_the_hub_is_one_clear_error(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception], says: str
) -> None:
    def fail(*_: Any, **__: Any) -> str:
        raise gone(error)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    with pytest.raises(CheckpointError, match=says):
        hub.fetch("owner/name@x")


def test_offline_a_model_that_is_not_in_the_cache_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(CheckpointError, match="HF_HUB_OFFLINE is set"):
        hub.fetch("owner/name")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("around", "imported"),
    [("Uninitialised()", "False"), ("nullcontext()", "True")],
)
def test_an_empty_network_is_built_without_what_initialisers_import(around, imported, tmp_path):
    code = f"""
import sys
from contextlib import nullcontext
from torch import device, nn
from rhapsode.checkpoints.uninitialised import Uninitialised
with device("meta"), {around}:
    made = [nn.Embedding(2, 3), nn.Linear(2, 3), nn.Conv1d(2, 3, 1)]
assert all(weight.is_meta for module in made for weight in module.parameters())
print("torch._dynamo" in sys.modules)
"""
    assert python(code, tmp_path).strip() == imported


def test_the_aligner_is_loaded_without_what_arithmetic_on_the_meta_device_imports(tmp_path):
    code = """
import sys
from rhapsode.alignment.acoustic import AcousticModel
AcousticModel.load()
print("torch._dynamo" in sys.modules)
"""
    assert python(code, tmp_path).strip() == "False"
