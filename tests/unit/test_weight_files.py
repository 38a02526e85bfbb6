"""Files of tensors with names of their own: read one by one, unwrapped, and transposed where they are stored so."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from rhapsode.checkpoints.transposed import Transposed
from rhapsode.checkpoints.weights import open_file
from rhapsode.errors import CheckpointError

TENSORS = {"up.weight": torch.arange(6.0).view(2, 3), "up.bias": torch.ones(3), "table": torch.zeros(4, 2)}


def test_a_file_of_any_name_is_read_tensor_by_tensor(tmp_path: Path) -> None:
    save_file(TENSORS, tmp_path / "talker_small.safetensors")
    save_file({"up.weight": torch.zeros(1)}, tmp_path / "talker_other.safetensors")
    found = open_file(tmp_path / "talker_small.safetensors")
    assert set(found) == set(TENSORS)
    assert found.shape("table") == (4, 2)
    assert torch.equal(found.read("up.weight"), TENSORS["up.weight"])
    assert found.file_of("table") == tmp_path / "talker_small.safetensors"


@pytest.mark.parametrize("wrapped", [TENSORS, {"model": TENSORS}, {"model": [TENSORS]}, {"state_dict": TENSORS}])
def test_a_pickle_may_hold_its_tensors_in_a_mapping_or_in_a_list(tmp_path: Path, wrapped: dict) -> None:
    torch.save(wrapped, tmp_path / "talker.pt")
    found = open_file(tmp_path / "talker.pt")
    assert {name: found.read(name).tolist() for name in found} == {k: v.tolist() for k, v in TENSORS.items()}


@pytest.mark.parametrize("wrapped", [[], {"model": []}, {"model": [TENSORS, TENSORS]}, {"model": {"a": 1}}])
def test_a_pickle_of_anything_else_is_refused(tmp_path: Path, wrapped: object) -> None:
    torch.save(wrapped, tmp_path / "talker.pt")
    with pytest.raises(CheckpointError, match=r"talker\.pt must hold tensors by name"):
        open_file(tmp_path / "talker.pt")


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"holds no talker\.pt"):
        open_file(tmp_path / "talker.pt")


def test_matrices_of_these_names_are_transposed_and_nothing_else(tmp_path: Path) -> None:
    save_file(TENSORS, tmp_path / "a.safetensors")
    found = Transposed(open_file(tmp_path / "a.safetensors"), "up.*")
    assert found.shape("up.weight") == (3, 2)
    assert torch.equal(found.read("up.weight"), TENSORS["up.weight"].T)
    assert (found.shape("up.bias"), found.read("up.bias").shape) == ((3,), (3,))
    assert (found.shape("table"), found.read("table").shape) == ((4, 2), (4, 2))
