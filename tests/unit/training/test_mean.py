"""A mean of two checkpoints lies between them, and is refused where their codes differ."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from mean import CODEC, WEIGHTS, write_mean


def model(folder, weight: float, codes: float = 1.0):
    (folder / CODEC).mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    save_file({"talker.w": torch.full((2,), weight, dtype=torch.float16)}, folder / WEIGHTS)
    codec = {"decoder.w": torch.full((2,), weight), "decoder.q._codebook.sum": torch.full((2,), codes)}
    save_file(codec | {"steps": torch.tensor([int(weight)])}, folder / CODEC / WEIGHTS)
    return folder


def test_each_part_has_its_share(tmp_path):
    before, after = model(tmp_path / "a", 1.0), model(tmp_path / "b", 3.0)
    write_mean(before, after, tmp_path / "c", talker=0.25, codec=0.5)
    talker, codec = load_file(tmp_path / "c" / WEIGHTS), load_file(tmp_path / "c" / CODEC / WEIGHTS)
    assert talker["talker.w"].tolist() == [1.5, 1.5]
    assert talker["talker.w"].dtype == torch.float16
    assert codec["decoder.w"].tolist() == [2.0, 2.0]
    assert codec["steps"].tolist() == [3]  # no weight
    assert (tmp_path / "c" / "config.json").is_file()
    assert load_file(after / WEIGHTS)["talker.w"].tolist() == [3.0, 3.0]


def test_other_codes_are_refused(tmp_path):
    before, after = model(tmp_path / "a", 1.0), model(tmp_path / "b", 3.0, codes=2.0)
    with pytest.raises(ValueError, match="codes are others"):
        write_mean(before, after, tmp_path / "c", 0.5, 0.5)
