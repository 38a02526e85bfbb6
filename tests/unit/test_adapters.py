"""What checkpoints hold besides plain weights: adapters, weight norm."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from rhapsode.checkpoints.lora import WithLora
from rhapsode.checkpoints.rotary_halves import RotaryHalves, RotaryRows
from rhapsode.checkpoints.weight_norm import fold_weight_norm
from rhapsode.checkpoints.weights import TensorsInMemory
from rhapsode.errors import CheckpointError
from rhapsode.nn.rope import Rope, RopeConfig

WEIGHTS = {"a.q.weight": torch.ones(4, 6), "b.weight": torch.ones(2, 2)}
ADAPTER = {"a.q.lora_A": torch.full((3, 6), 0.5), "a.q.lora_B": torch.full((4, 3), 0.25)}


def merged(folder: Path, parts: dict[str, torch.Tensor], alpha: float | None = None) -> WithLora:
    save_file(parts, folder / "lora_weights.safetensors")
    return WithLora(TensorsInMemory(folder / "model.safetensors", WEIGHTS), folder, alpha)


@pytest.mark.parametrize(
    ("settings", "given", "alpha"),
    [(None, None, 16), ({"lora_config": {"alpha": 8}}, None, 8), ({"alpha": 2.5}, None, 2.5), ({"alpha": 8}, 4.0, 4)],
)
def test_an_adapter_is_added_to_its_weight_alone(tmp_path: Path, settings: dict, given: float, alpha: float) -> None:
    if settings:
        (tmp_path / "lora_config.json").write_text(json.dumps(settings))
    found = merged(tmp_path, ADAPTER, given)
    assert list(found) == list(WEIGHTS)
    assert torch.allclose(found.read("a.q.weight"), torch.full((4, 6), 1 + alpha / 3 * 3 * 0.125))
    assert torch.equal(found.read("b.weight"), WEIGHTS["b.weight"])


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"c.lora_A": torch.ones(3, 6)}, "no weight"),
        ({"a.q.lora_A": torch.ones(3, 6)}, "half"),
        (ADAPTER | {"a.q.lora_A": torch.ones(3, 5)}, r"\[3, 5\]"),
    ],
)
def test_an_adapter_for_another_model_is_refused(tmp_path: Path, parts: dict[str, torch.Tensor], words: str) -> None:
    with pytest.raises(CheckpointError, match=words):
        merged(tmp_path, parts)


def test_no_adapter_where_one_was_promised_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"lora_weights\.safetensors"):
        WithLora(TensorsInMemory(tmp_path / "model.safetensors", WEIGHTS), tmp_path)


def test_weight_norm_is_made_plain() -> None:
    length, direction = torch.rand(3, 1, 1) + 0.5, torch.randn(3, 2, 5)
    conv = torch.nn.utils.parametrizations.weight_norm(torch.nn.Conv1d(2, 3, 5))
    conv.parametrizations.weight.original0.data.copy_(length)
    conv.parametrizations.weight.original1.data.copy_(direction)
    tensors = {"x.weight_g": length, "x.weight_v": direction, "x.bias": torch.ones(3), "y.alpha": torch.ones(1)}
    found = fold_weight_norm(tensors, inside="conv.")
    assert set(found) == {"x.conv.weight", "x.conv.bias", "y.alpha"}
    assert torch.allclose(found["x.conv.weight"].float(), conv.weight, atol=1e-6)


def test_weight_norm_in_torchs_newer_spelling_is_the_same() -> None:
    conv = torch.nn.utils.parametrizations.weight_norm(torch.nn.ConvTranspose1d(2, 3, 5))
    found = fold_weight_norm({f"x.conv.{name}": tensor.data for name, tensor in conv.named_parameters()})
    assert set(found) == {"x.conv.weight", "x.conv.bias"}
    assert torch.allclose(found["x.conv.weight"].float(), conv.weight, atol=1e-6)
    lone = {"y.weight_g": torch.ones(1)}
    assert fold_weight_norm(lone) == lone  # without its direction it stays what it is, and is found to be unused


@pytest.mark.parametrize("head_dim", [6, 10])
def test_attention_over_reordered_channels_is_attention_over_adjacent_pairs(head_dim: int) -> None:
    """Queries and keys of a checkpoint that rotates channels 2i and 2i + 1, for a module that rotates halves."""
    rows, heads = 3 * head_dim, 2  # two heads of queries and one of keys are rotated, one of values is not
    weight, x = torch.randn(4 * head_dim, 5).double(), torch.randn(4, 5).double()
    halves = RotaryHalves(
        TensorsInMemory(Path("model"), {"a.wqkv": weight, "a.other": weight}), {"*.wqkv": RotaryRows(rows, head_dim)}
    )
    assert torch.equal(halves.read("a.other"), weight)
    assert torch.equal(halves.read("a.wqkv")[rows:], weight[rows:])
    rope = Rope(RopeConfig(head_dim, 100.0))
    angles = rope(torch.arange(4)[None], torch.float64)
    mine = angles.rotate((x @ halves.read("a.wqkv")[:rows].T).view(1, 4, 3, head_dim))[0]
    turned = torch.polar(torch.ones(4, head_dim // 2), torch.arange(4)[:, None] * rope.inv_freq).to(torch.complex128)
    pairs = torch.view_as_complex((x @ weight[:rows].T).view(4, 3, -1, 2)) * turned[:, None]
    theirs = torch.view_as_real(pairs).flatten(2)
    scores = [torch.einsum("qhd,kd->hqk", part[:, :heads], part[:, heads]) for part in (mine, theirs)]
    assert torch.allclose(*scores, atol=1e-5)
