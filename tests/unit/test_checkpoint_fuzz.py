"""Damaged checkpoints: a configuration or a safetensors header that makes no sense is an error that names it."""

import json
import resource
import struct
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzzing import damaged, damaged_bytes, fuzzed
from rhapsode.checkpoints.header import tensor_names
from rhapsode.checkpoints.weights import Weights
from rhapsode.config import resolve
from rhapsode.engine import Engine, Source
from rhapsode.errors import CheckpointError, ConfigError, RhapsodeError, UnknownModel
from rhapsode.models.registry import find
from tiny.qwen3_tts import Tiny, write

DEPLOYMENT = resolve(
    env={}, flags={"device": "cpu", "graphs": False, "limits": {"max_concurrency": 1, "max_positions": 64}}
)
CPU_S = 10  # to build the whole engine takes half a second
GROWTH_KIB = 300 * 1024
CONFIGS = ("config.json", "generation_config.json", "speech_tokenizer/config.json")
WEIGHTS = ("model.safetensors", "speech_tokenizer/model.safetensors")


def build(folder: Path) -> RhapsodeError | None:
    """Returns what is wrong with a checkpoint; None where an engine can be made of it."""
    started_s, before = time.thread_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        model = find(str(folder))
        model.info()
        Engine(model.spec, DEPLOYMENT, Source(model.checkpoint, model.config))
        problem = None
    except (CheckpointError, UnknownModel, ConfigError) as error:
        problem = error
    assert time.thread_time() - started_s < CPU_S
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < GROWTH_KIB
    return problem


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    write(folder, Tiny(kind="base"))
    assert build(folder) is None
    return folder


@pytest.fixture(scope="module")
def dummy(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dummy")
    (folder / "config.json").write_text('{"architectures": ["RhapsodeDummy"], "model_type": "dummy"}')
    assert build(folder) is None
    return folder


def attempt_all(folder: Path, name: str, strategy: st.SearchStrategy[bytes], few: int) -> list[RhapsodeError | None]:
    """Writes damaged versions of a file, builds the checkpoint with each, and restores the file.

    Returns what was wrong with each; None where it could be built.
    """
    file = folder / name
    whole = file.read_bytes()
    problems: list[RhapsodeError | None] = []

    @fuzzed(few)
    @given(data=strategy)
    def attempt(data: bytes) -> None:
        file.write_bytes(data)
        problems.append(build(folder))

    try:
        attempt()
    finally:
        file.write_bytes(whole)
    return problems


def are_explained(problems: list[RhapsodeError | None]) -> bool:
    """Whether there were any attempts, and whatever could not be built says why, in one line."""
    return bool(problems) and all(one is None or (one.message and "\n" not in one.message) for one in problems)


def as_bytes(tree: Any) -> bytes:
    try:
        return json.dumps(tree).encode("utf-8", "surrogatepass")
    except ValueError:  # more digits than Python prints
        return b"{"


@pytest.mark.parametrize("name", CONFIGS)
def test_a_damaged_configuration_is_built_or_explained(tiny: Path, name: str) -> None:
    tree = json.loads((tiny / name).read_text())
    assert are_explained(attempt_all(tiny, name, damaged(tree, times=2).map(as_bytes), few=8))


def test_a_damaged_configuration_of_the_dummy_is_built_or_explained(dummy: Path) -> None:
    tree = json.loads((dummy / "config.json").read_text())
    damages = damaged(tree).map(as_bytes) | damaged_bytes(as_bytes(tree))
    assert are_explained(attempt_all(dummy, "config.json", damages, few=40))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("speaker_encoder_config",), 7),
        (("speaker_encoder_config", "enc_channels"), []),
        (("speaker_encoder_config", "enc_channels", 0), 2**40),
        (("speaker_encoder_config", "enc_channels", 0), "x"),
        (("speaker_encoder_config", "enc_res2net_scale"), 2**30),
        (("speaker_encoder_config", "enc_res2net_scale"), 0),
        (("talker_config", "num_hidden_layers"), 2**30),
        (("talker_config", "num_hidden_layers"), -3),
        (("talker_config", "num_attention_heads"), 0),
        (("talker_config", "hidden_size"), 2**62),
        (("talker_config", "num_code_groups"), 2**31),
        (("talker_config", "rope_theta"), "x"),
    ],
    ids=str,
)
def test_a_size_that_makes_no_sense_is_explained(tiny: Path, path: tuple, value: Any) -> None:
    file = tiny / "config.json"
    whole = file.read_text()
    tree = at = json.loads(whole)
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    file.write_text(json.dumps(tree))
    try:
        assert isinstance(build(tiny), CheckpointError)
    finally:
        file.write_text(whole)


# --- headers of safetensors files ---


def header_of(data: bytes) -> tuple[dict[str, Any], bytes]:
    size = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def with_header(header: bytes, tensors: bytes, size: int | None = None) -> bytes:
    return struct.pack("<Q", len(header) if size is None else size) + header + tensors


@pytest.mark.parametrize("name", WEIGHTS)
def test_a_damaged_header_is_explained_or_harmless(tiny: Path, name: str) -> None:
    header, tensors = header_of((tiny / name).read_bytes())
    few_tensors = dict(list(header.items())[:6])
    entries = damaged(few_tensors, times=2).map(lambda some: {**header, **some} if isinstance(some, dict) else some)
    files = entries.map(lambda made: with_header(as_bytes(made), tensors))
    assert are_explained(attempt_all(tiny, name, files, few=6))


@pytest.mark.parametrize("size", [0, 1, 7, 2**20, 2**31, 2**63, 2**64 - 1])
@pytest.mark.parametrize("header", [b"", b"{}", b'{"a":', b"[]", b"[" * 1000, b"\xff"])
def test_a_header_of_an_absurd_length_is_explained(tmp_path: Path, header: bytes, size: int) -> None:
    (tmp_path / "model.safetensors").write_bytes(with_header(header, bytes(64), size))
    if header == b"{}" and size == 0:
        return
    for read in (Weights, tensor_names):
        with pytest.raises(CheckpointError):
            read(tmp_path)


def entry(dtype: Any = "F32", shape: Any = (2, 2), offsets: Any = (0, 16)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@pytest.mark.parametrize(
    "tensors",
    [
        {"a": entry(), "b": entry()},  # the same bytes twice
        {"a": entry(), "b": entry(offsets=(8, 24))},
        {"a": entry(offsets=(8, 24))},  # a gap
        {"a": entry(offsets=(16, 0))},
        {"a": entry(offsets=(0, 2**62))},
        {"a": entry(shape=(2**40, 2**40))},
        {"a": entry(shape=(-1, 2))},
        {"a": entry(dtype="F33")},
        {"a": entry(dtype="F64")},
        {"a": entry(dtype=3)},
        {"a": {"dtype": "F32"}},
        {"a": None},
    ],
    ids=str,
)
def test_tensors_that_overlap_or_lie_outside_are_explained(tmp_path: Path, tensors: dict[str, Any]) -> None:
    (tmp_path / "model.safetensors").write_bytes(with_header(as_bytes(tensors), bytes(16)))
    with pytest.raises(CheckpointError):
        Weights(tmp_path)


def test_a_file_that_was_cut_is_explained(tiny: Path) -> None:
    whole = (tiny / WEIGHTS[0]).read_bytes()
    cuts = st.integers(0, len(whole) - 1).map(lambda size: whole[:size])
    problems = attempt_all(tiny, WEIGHTS[0], cuts, few=5)
    assert problems
    assert all(isinstance(problem, CheckpointError) for problem in problems)


@pytest.mark.parametrize("dtype", ["I8", "BOOL", "F64", "U8"])
def test_a_tensor_of_another_type_is_converted_or_explained(tiny: Path, dtype: str) -> None:
    file = tiny / WEIGHTS[0]
    whole = file.read_bytes()
    header, tensors = header_of(whole)
    name, first = next((name, one) for name, one in header.items() if name != "__metadata__" and len(one["shape"]) == 2)
    header[name] = {**first, "dtype": dtype}
    file.write_bytes(with_header(as_bytes(header), tensors))
    try:
        assert isinstance(build(tiny), CheckpointError)
    finally:
        file.write_bytes(whole)
