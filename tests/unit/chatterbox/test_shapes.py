"""Shapes without weights: what a measurement with random weights runs on."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from rhapsode.bench.engine.subject import SHAPES, write_shape
from rhapsode.checkpoints.outline import TensorOutline
from rhapsode.checkpoints.weight_norm import fold_weight_norm
from rhapsode.config import resolve
from rhapsode.engine import Engine, Source
from rhapsode.errors import CheckpointError
from rhapsode.models.chatterbox.config import read
from rhapsode.models.chatterbox.t3.sizes import T3Sizes
from rhapsode.models.registry import find
from rhapsode.testing.subject import speak
from rhapsode.types import Clip, SpeechRequest, Voice
from tiny import chatterbox_s3gen as s3gen
from tiny.chatterbox import HOP, ORIGINAL, TURBO, TinyT3, t3_tensors

LLAMA = T3Sizes(1024, 4096, 30, 704, 8194, 256, text_places=2050, speech_places=4100, queries=32)
PUBLISHED = {
    "chatterbox": LLAMA,
    "chatterbox-turbo": T3Sizes(1024, 4096, 24, 50_276, 6563, 256, gpt2=True, places=8196),
    "chatterbox-nano": T3Sizes(768, 3072, 12, 50_276, 6563, 256, gpt2=True, places=8196),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_packaged_shapes_have_the_published_sizes(tmp_path: Path, name: str) -> None:
    write_shape(name, tmp_path)
    config = read(find(str(tmp_path)).config, tmp_path, "auto")
    assert config.t3 == PUBLISHED[name]
    assert config.kind.value == {"chatterbox": "original"}.get(name, name.removeprefix("chatterbox-"))
    assert set(json.loads((SHAPES / name / "chatterbox.json").read_text())["tensors"]) == {"t3", "s3gen", "ve"}


@pytest.mark.parametrize("tiny", [ORIGINAL, TURBO], ids=["original", "turbo"])
def test_a_shape_is_spoken_with_random_weights(tmp_path: Path, tiny: TinyT3) -> None:
    """Without an end, as measurements want it."""
    sound = s3gen.TURBO if tiny.gpt2 else s3gen.ORIGINAL
    acoustic = {name: torch.from_numpy(tensor) for name, tensor in s3gen.s3gen_tensors(sound).items()}
    made = {"t3": t3_tensors(tiny), "s3gen": fold_weight_norm(acoustic), "ve": s3gen.voice_tensors(sound)}
    listed = {file: {name: list(tensor.shape) for name, tensor in each.items()} for file, each in made.items()}
    kind = "turbo" if tiny.gpt2 else "original"
    source = tmp_path / "shape"
    source.mkdir()
    (source / "chatterbox.json").write_text(json.dumps({"kind": kind, "tensors": listed}))
    folder = tmp_path / "written"
    folder.mkdir()
    assert write_shape(str(source), folder) is False
    found = find(str(folder))
    limits = {"max_concurrency": 1, "max_positions": 512}
    flags = {"model": str(folder), "device": "cpu", "threads": 1, "limits": limits, "random_weights": True}
    with Engine(found.spec, resolve(env={}, flags=flags), Source(found.checkpoint, found.config)) as engine:
        clip = Clip(np.random.default_rng(0).normal(0, 0.1, (1, 130_000)).astype(np.float32), 24_000)
        for voice in (Voice(), Voice.cloned(clip)):
            samples = speak(engine, SpeechRequest("Hello.", voice, seed=1, max_frames=5))
            assert samples.shape == (1, 5 * HOP)
            assert np.isfinite(samples).all()


def test_a_name_may_stand_for_many() -> None:
    outline = TensorOutline(Path("a/b.json"), {"x.{0-2}.y.{8-9}.w": [2, 3], "z": [1]})
    assert sorted(outline) == [*(f"x.{i}.y.{j}.w" for i in range(3) for j in (8, 9)), "z"]
    assert (outline.shape("x.2.y.8.w"), "x.3.y.8.w" in outline) == ((2, 3), False)
    with pytest.raises(CheckpointError, match="has only the shape of 'z'"):
        outline.read("z")


@pytest.mark.parametrize("shape", [None, 5, ["1"], "12"])
def test_what_is_no_shape_is_refused(shape: object) -> None:
    with pytest.raises(CheckpointError, match="must have a shape"):
        TensorOutline(Path("a/b.json"), {"z": shape})


@pytest.mark.parametrize("content", [{"kind": "big", "tensors": {}}, {"kind": "nano", "tensors": {}}])
def test_a_shape_that_lacks_something_is_an_error(tmp_path: Path, content: dict[str, object]) -> None:
    (tmp_path / "chatterbox.json").write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=r"chatterbox\.json"):
        find(str(tmp_path)).info()
