"""Shapes become checkpoints without weights, in whatever layout their family has."""

from pathlib import Path

import pytest

from rhapsode.bench.engine import stand_ins
from rhapsode.bench.engine.subject import SHAPES, write_shape
from rhapsode.errors import ConfigError
from rhapsode.models.registry import find
from rhapsode.models.voxtral_tts.config import read
from rhapsode.models.voxtral_tts.tokenizer import Tekken


@pytest.mark.parametrize("name", sorted(folder.name for folder in SHAPES.iterdir() if folder.is_dir()))
def test_every_packaged_shape_is_a_checkpoint_of_its_family(tmp_path: Path, name: str) -> None:
    assert write_shape(name, tmp_path) is False
    assert name.startswith(find(str(tmp_path)).spec.name)


def test_voxtral_s_shape_has_the_published_sizes(tmp_path: Path) -> None:
    write_shape("voxtral-tts", tmp_path)
    found = find(str(tmp_path))
    config = read(found.config)
    assert (config.backbone.n_layers, config.codes.books, config.codec.hop, len(config.codec.voices)) == (
        26,
        37,
        1920,
        20,
    )
    assert found.info().can.names() == ("presets",)
    text, tokenizer = "Hi [AUDIO] é", Tekken(tmp_path)
    ids = [1000 + byte for byte in text.encode()]
    assert tokenizer.encode(text) == ids
    tokenizer._cut = stand_ins.NoSplit("", "isolated")  # as on a machine without the package
    assert tokenizer.encode(text) == ids


def test_a_file_by_another_name_is_its_folder_s_config(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    write_shape("voxcpm2", source)
    (source / "config.json").rename(source / "variant.json")
    write_shape(str(source / "variant.json"), target)
    assert find(str(target)).spec.name == "voxcpm2"


def test_an_unknown_shape_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="voxtral-tts"):
        write_shape("voxtral-tt", tmp_path)
    with pytest.raises(ConfigError, match="no packaged shape"):
        write_shape(str(tmp_path), tmp_path)
