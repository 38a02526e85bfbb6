"""Checkpoints in Mistral's layout: any safetensors files of a folder, other names, adjacent rotary channels."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from rhapsode.checkpoints.files import read_tensor
from rhapsode.checkpoints.header import tensor_names
from rhapsode.checkpoints.load import load
from rhapsode.checkpoints.rotary_halves import RotaryHalves, RotaryRows
from rhapsode.checkpoints.weight_norm import fold_weight_norm
from rhapsode.checkpoints.weights import TensorsInMemory, Weights
from rhapsode.errors import CheckpointError
from rhapsode.nn.linear import FusedLinear
from rhapsode.nn.rope import Rope, RopeConfig

FILES = {
    "consolidated.safetensors": {"a": torch.ones(2), "b": torch.zeros(3)},
    "more.safetensors": {"c": torch.ones(1)},
}


def write(folder: Path) -> Path:
    for name, tensors in FILES.items():
        save_file(tensors, folder / name)
    return folder


def test_all_files_of_a_folder_are_one_checkpoint(tmp_path: Path) -> None:
    found = Weights(write(tmp_path), every=True)
    assert set(found) == tensor_names(tmp_path) == {"a", "b", "c"}
    assert torch.equal(found.read("c"), torch.ones(1))
    assert found.file_of("c").name == "more.safetensors"


def test_a_tensor_in_two_files_is_an_error(tmp_path: Path) -> None:
    save_file({"a": torch.ones(2)}, write(tmp_path) / "twice.safetensors")
    with pytest.raises(CheckpointError, match=r"'a' is in consolidated\.safetensors and in twice\.safetensors"):
        Weights(tmp_path, every=True)


def test_a_folder_without_weights_is_an_error_and_has_no_names(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="weights are missing"):
        Weights(tmp_path, every=True)
    assert tensor_names(tmp_path) == set()


@pytest.mark.parametrize("content", [b"", b"\xff" * 9, (5).to_bytes(8, "little") + b"[1,2]"])
def test_a_file_that_is_no_safetensors_file_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match="not a readable safetensors file"):
        tensor_names(tmp_path)


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn = nn.Module()
        self.attn.qkv = FusedLinear(2, (4, 2, 2))


def test_errors_name_tensors_as_the_file_does(tmp_path: Path) -> None:
    names = {"q_proj": "wq", "k_proj": "wk", "v_proj": "wv"}

    stored = {f"net.attn.w{part}.weight": torch.full((4 if part == "q" else 2, 2), i) for i, part in enumerate("qkv")}
    with torch.device("meta"):
        module = Small()
    load(module, TensorsInMemory(tmp_path / "x", stored), prefix="net.", names=names)
    assert module.attn.qkv.weight[:, 0].tolist() == [0, 0, 0, 0, 1, 1, 2, 2]
    del stored["net.attn.wk.weight"]
    with torch.device("meta"):
        module = Small()
    with pytest.raises(CheckpointError, match=r"lacks the tensor 'net\.attn\.wk\.weight'"):
        load(module, TensorsInMemory(tmp_path / "x", stored), prefix="net.", names=names)


def test_adjacent_channels_rotate_as_halves_once_reordered(tmp_path: Path) -> None:
    """Scores of queries and keys must be those of the adjacent rotation."""
    heads, dim, width, positions = 2, 6, 5, torch.tensor([[3, 11]])
    weights = {"layers.0.wq.weight": torch.randn(heads * dim, width), "layers.0.wv.weight": torch.randn(4, width)}
    tensors = RotaryHalves(
        TensorsInMemory(tmp_path / "x", weights), {"layers.*.wq.weight": RotaryRows(heads * dim, dim)}
    )
    assert tensors.read("layers.0.wv.weight") is weights["layers.0.wv.weight"]
    x, rope = torch.randn(2, width), Rope(RopeConfig(dim))

    def halves() -> torch.Tensor:
        rows = (x @ tensors.read("layers.0.wq.weight").T).view(1, 2, heads, dim)
        return rope(positions, torch.float32).rotate(rows)[0]

    def adjacent() -> torch.Tensor:
        rows = (x @ weights["layers.0.wq.weight"].T).view(2, heads, dim // 2, 2)
        angle = positions[0][:, None, None] * rope.inv_freq
        turned = torch.view_as_complex(rows.contiguous()) * torch.polar(torch.ones_like(angle), angle)
        return torch.view_as_real(turned).flatten(2)

    for rotated in (halves(), adjacent()):
        assert rotated.shape == (2, heads, dim)
    scores = [torch.einsum("hd,hd->h", *rotated) for rotated in (halves(), adjacent())]
    torch.testing.assert_close(*scores)


def test_weight_norm_by_parametrization_is_folded_too() -> None:
    conv = nn.utils.parametrizations.weight_norm(nn.ConvTranspose1d(3, 2, 4, bias=False))
    conv.parametrizations.weight.original0.data.mul_(1.7)
    found = fold_weight_norm({f"block.conv.{name}": tensor for name, tensor in conv.state_dict().items()})
    assert set(found) == {"block.conv.weight"}
    torch.testing.assert_close(found["block.conv.weight"].float(), conv.weight.detach())


def test_half_a_weight_norm_is_left_for_the_loader_to_report() -> None:
    tensors = {"x.weight_g": torch.ones(2, 1, 1), "y.parametrizations.weight.original1": torch.ones(2, 1, 1)}
    assert set(fold_weight_norm(tensors)) == set(tensors)


def test_a_pickle_of_one_tensor_is_read_and_nothing_else(tmp_path: Path) -> None:
    torch.save(torch.arange(3), tmp_path / "good.pt")
    assert read_tensor(tmp_path / "good.pt").tolist() == [0, 1, 2]
    torch.save({"a": torch.ones(1)}, tmp_path / "many.pt")
    with pytest.raises(CheckpointError, match="one tensor, not dict"):
        read_tensor(tmp_path / "many.pt")
    torch.save(Path("evil"), tmp_path / "evil.pt")
    with pytest.raises(CheckpointError, match="plain tensors"):
        read_tensor(tmp_path / "evil.pt")
    (tmp_path / "text.pt").write_text(json.dumps([1]))
    with pytest.raises(CheckpointError, match="plain tensors"):
        read_tensor(tmp_path / "text.pt")
