"""What checkpoints hold besides plain weights: adapters, weight norm."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from rhapsode.checkpoints.lora import WithLora
from rhapsode.checkpoints.weight_norm import fold_weight_norm
from rhapsode.checkpoints.weights import TensorsInMemory
from rhapsode.errors import CheckpointError

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
    newer = {f"x.{name}": tensor for name, tensor in conv.state_dict().items()}
    assert set(newer) == {"x.bias", "x.parametrizations.weight.original0", "x.parametrizations.weight.original1"}
    assert torch.equal(fold_weight_norm(newer)["x.weight"], found["x.conv.weight"])
