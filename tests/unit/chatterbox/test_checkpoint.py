"""A repository is recognised by its files, holds several T3, and an error names whatever is wrong with one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from rhapsode.errors import CheckpointError, ConfigError
from rhapsode.models.base import StageContext
from rhapsode.models.chatterbox.config import read
from rhapsode.models.chatterbox.spec import PRESET, SPEC, ChatterboxSettings
from rhapsode.models.chatterbox.t3 import parts
from rhapsode.models.chatterbox.t3.sizes import T3Sizes, read_sizes
from rhapsode.models.chatterbox.variants import Kind, choose, variants_in
from rhapsode.models.chatterbox.voice import read_presets
from rhapsode.models.registry import find
from tiny.chatterbox import MULTILINGUAL, ORIGINAL, TURBO, preset, t3_tensors

ALL = ("t3_cfg", "t3_turbo_v1", "t3_nano_v1", "t3_mtl23ls_v2", "t3_mtl23ls_v3", "t3_23lang", "t3_hi")


def folder_of(tmp_path: Path, *names: str) -> Path:
    for name in names:
        (tmp_path / name).touch()
    return tmp_path


# --- which T3 ---


def test_names_of_files_tell_what_a_t3_is(tmp_path: Path) -> None:
    found = variants_in(folder_of(tmp_path, *(f"{name}.safetensors" for name in reversed(ALL))))
    kinds = [Kind.ORIGINAL, Kind.TURBO, Kind.NANO, *[Kind.MULTILINGUAL] * 4]
    assert [(variant.name, variant.kind) for variant in found] == list(
        zip((*ALL[:5], "t3_23lang", "t3_hi"), kinds, strict=True)
    )


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ("auto", "t3_cfg"),
        ("original", "t3_cfg"),
        ("multilingual", "t3_mtl23ls_v2"),
        ("t3_mtl23ls_v3", "t3_mtl23ls_v3"),
        ("t3_mtl23ls_v3.safetensors", "t3_mtl23ls_v3"),
        ("nano", "t3_nano_v1"),
        ("turbo", "t3_turbo_v1"),
        ("t3_hi", "t3_hi"),
    ],
)
def test_a_deployment_chooses_a_t3_by_its_kind_or_by_its_file(tmp_path: Path, wanted: str, name: str) -> None:
    folder = folder_of(tmp_path, *(f"{name}.safetensors" for name in ALL))
    assert choose(folder, wanted).file == folder / f"{name}.safetensors"


def test_a_t3_that_is_not_there_is_answered_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no 'turbo': known: original, t3_cfg\."):
        choose(folder_of(tmp_path, "t3_cfg.safetensors"), "turbo")
    with pytest.raises(CheckpointError, match=r"holds no t3_\*\.safetensors and no t3_\*\.pt"):
        choose(folder_of(tmp_path / ".."), "auto")


def test_a_safetensors_file_goes_before_a_pickle_of_its_name(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "t3_cfg.pt", "t3_cfg.safetensors", "t3_turbo_v1.pt")
    assert [variant.file.name for variant in variants_in(folder)] == ["t3_cfg.safetensors", "t3_turbo_v1.pt"]


@pytest.mark.parametrize("name", ["t3_cfg.safetensors", "t3_turbo_v1.pt", "t3_hi.safetensors"])
def test_a_repository_is_recognised_by_such_a_file(tmp_path: Path, name: str) -> None:
    model = find(str(folder_of(tmp_path, name)))
    assert (model.spec.name, dict(model.config)) == ("chatterbox", {})


def test_what_a_repository_can_do_depends_on_the_t3_that_is_chosen(checkpoint: Path) -> None:
    model = find(str(checkpoint))
    assert (model.info().languages, model.info().voices) == (("en",), (PRESET,))
    chosen = model.info({"t3": "multilingual"})
    assert (len(chosen.languages), chosen.summary) == (23, "23 languages, voice builtin, cloning; 24 kHz")
    with pytest.raises(ConfigError, match="has no 'nano'"):
        model.info({"t3": "nano"})


# --- sizes ---


def test_sizes_are_those_of_the_tensors(checkpoint: Path, turbo_checkpoint: Path) -> None:
    common = {"hidden": 128, "layers": 2, "speaker": 32}
    llama = {"speech_rows": 8194, "ffn": 192, "text_places": 122, "speech_places": 334, "queries": 8}
    assert read_sizes(checkpoint / "t3_cfg.safetensors") == T3Sizes(**common, **llama, text_rows=704)
    assert read_sizes(checkpoint / "t3_mtl23ls_v3.safetensors") == T3Sizes(**common, **llama, text_rows=2454)
    gpt2 = {"speech_rows": 6563, "ffn": 512, "places": 900, "gpt2": True}
    assert read_sizes(turbo_checkpoint / "t3_turbo_v1.safetensors") == T3Sizes(**common, **gpt2, text_rows=320)


def context(folder: Path, **settings: Any) -> StageContext:
    return StageContext(SPEC, folder, {}, "cpu", "float32", settings=ChatterboxSettings(**settings))


@pytest.mark.parametrize("wrap", [lambda made: made, lambda made: {"model": [made]}, lambda made: {"model": made}])
def test_a_pickle_holds_the_same_t3(tmp_path: Path, turbo_checkpoint: Path, wrap: Callable[[Any], Any]) -> None:
    made = {name: torch.from_numpy(tensor) for name, tensor in t3_tensors(TURBO).items()}
    torch.save(wrap(made), tmp_path / "t3_turbo_v1.pt")
    nets = [parts.talker(read({}, folder, "auto"), context(folder)) for folder in (tmp_path, turbo_checkpoint)]
    one, other = (dict(net.state_dict()) for net in nets)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def broken(recipe: Any, change: Callable[[dict[str, np.ndarray]], Any]) -> dict[str, np.ndarray]:
    made = t3_tensors(recipe)
    change(made)
    return {name: np.ascontiguousarray(tensor) for name, tensor in made.items()}


@pytest.mark.parametrize("name", ["text_emb.weight", "cond_enc.spkr_enc.weight", "tfmr.layers.0.mlp.gate_proj.weight"])
def test_a_tensor_that_sizes_need_is_named(tmp_path: Path, name: str) -> None:
    save_file(broken(ORIGINAL, lambda made: made.pop(name)), tmp_path / "t3_cfg.safetensors")
    with pytest.raises(CheckpointError, match=f"lacks the tensor '{name}'"):
        find(str(tmp_path)).info()


@pytest.mark.parametrize(
    "change",
    [
        lambda made: made.pop("tfmr.layers.1.self_attn.k_proj.weight"),
        lambda made: made.update({"tfmr.layers.1.extra.weight": np.zeros(3, np.float32)}),
        lambda made: made.update({"speech_head.weight": np.zeros((8193, 128), np.float32)}),
    ],
)
def test_tensors_must_be_those_of_the_network(tmp_path: Path, change: Callable[[dict[str, np.ndarray]], Any]) -> None:
    save_file(broken(ORIGINAL, change), tmp_path / "t3_cfg.safetensors")
    with pytest.raises(CheckpointError, match=r"k_proj|extra|speech_head"):
        parts.talker(read({}, tmp_path, "auto"), context(tmp_path))


def test_layers_of_another_kind_are_refused(tmp_path: Path) -> None:
    save_file(t3_tensors(MULTILINGUAL), tmp_path / "t3_turbo_v1.safetensors")
    with pytest.raises(CheckpointError, match="has the layers of Llama, which a turbo T3 has not"):
        find(str(tmp_path)).info()


def test_too_few_speech_tokens_are_refused(tmp_path: Path) -> None:
    few = {"speech_emb.weight": np.zeros((100, 128), np.float32)}
    save_file(broken(ORIGINAL, lambda made: made.update(few)), tmp_path / "t3_cfg.safetensors")
    with pytest.raises(CheckpointError, match="100 speech tokens cannot be"):
        find(str(tmp_path)).info()


# --- the preset ---


def voice_file(folder: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    content = preset("original")
    change(content)
    torch.save(content, folder / "conds.pt")
    return folder


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda content: content.pop("gen"), "two parts"),
        (lambda content: content["t3"].pop("speaker_emb"), "'speaker_emb'"),
        (lambda content: content["t3"].update(speaker_emb=torch.zeros(1, 31)), "32 finite numbers"),
        (lambda content: content["t3"]["speaker_emb"].fill_(torch.nan), "finite"),
        (lambda content: content["t3"]["cond_prompt_speech_tokens"].fill_(6561), "from 0 to 6560"),
        (lambda content: content["gen"]["prompt_token"].fill_(-1), "from 0 to 6560"),
        (lambda content: content["gen"].update(prompt_feat=torch.zeros(1, 5, 79)), "any number by 80"),
        (lambda content: content["gen"].update(embedding=torch.zeros(192)), "batch of one"),
    ],
)
def test_a_broken_preset_is_an_error_that_says_why(tmp_path: Path, change: Callable[[Any], Any], said: str) -> None:
    sizes = T3Sizes(128, 192, 2, 704, 8194, 32)
    with pytest.raises(CheckpointError, match=said):
        read_presets(voice_file(tmp_path, change), sizes)


def test_frames_of_a_preset_that_have_no_token_are_left_out(tmp_path: Path) -> None:
    """With them upstream's speech would begin too late."""

    def longer(content: dict[str, Any]) -> None:
        mel = content["gen"]["prompt_feat"]
        content["gen"]["prompt_feat"] = torch.cat((mel, mel[:, :1]), dim=1)

    voice = read_presets(voice_file(tmp_path, longer), T3Sizes(128, 192, 2, 704, 8194, 32))[PRESET]
    assert (len(voice.prompt_token), len(voice.prompt_feat)) == (73, 146)
