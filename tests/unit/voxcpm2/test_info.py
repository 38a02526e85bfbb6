"""What a checkpoint can do is known before it is loaded; what a deployment sets is not the checkpoint's to set."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from rhapsode.errors import ConfigError
from rhapsode.models.registry import find
from rhapsode.models.settings import parse_settings
from rhapsode.models.voxcpm2.spec import SPEC
from tiny.voxcpm2 import PATCH, Tiny, write
from unit.command import python
from unit.voxcpm2.asked import Family

Checkpoints = Callable[[str], Path]


def test_what_a_checkpoint_can_do_is_known_without_torch(tmp_path: Path) -> None:
    write(tmp_path, Tiny(decoder_rates=(3, 2)))
    info = find(str(tmp_path)).info()
    assert info.frame_hz == info.sample_rate / (PATCH * 6)
    assert info.can.names() == ("clone", "continuation", "design", "instructions")
    assert (info.can.references, len(info.languages)) == (1, 30)
    code = f"import sys; from rhapsode.models.registry import find; print(find({str(tmp_path)!r}).info().family)"
    assert python(f"{code}; print('torch' in sys.modules)", tmp_path).split() == ["voxcpm2", "False"]


def test_a_config_json_can_ask_for_no_adapter_and_no_random_weights(checkpoint: Checkpoints, tmp_path: Path) -> None:
    source = checkpoint("lora")
    other = shutil.copytree(source, tmp_path / "other")
    config = json.loads((source / "config.json").read_text())
    asked = {"lora": str(source / "lora"), "random_weights": True, "max_timesteps": 3}
    (other / "config.json").write_text(json.dumps(config | asked))
    plain, suspicious = (Family.open(folder).talker.net for folder in (source, other))
    merged = Family.open(source, lora=str(source / "lora")).talker.net.state_dict()
    weights = plain.state_dict()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in suspicious.state_dict().items())
    assert not all(torch.equal(tensor, weights[name]) for name, tensor in merged.items())


@pytest.mark.parametrize("settings", [{"max_timesteps": 1000}, {"max_timesteps": 0}, {"max_timestep": 5}, {"lora": 1}])
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"max_timesteps|lora"):
        parse_settings(SPEC, settings)


def test_its_talker_takes_no_text_while_it_speaks(checkpoint: Checkpoints) -> None:
    talker = Family.open(checkpoint("zero_shot")).talker
    assert talker.traits().names() == ["kv", "prefill", "capture"]
