"""Launches traced on a CPU: they give the same frames, only sooner."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from rhapsode.config import resolve
from rhapsode.device.launcher import LONG_S, Launcher
from rhapsode.engine import Engine, Source
from rhapsode.models.registry import find
from rhapsode.types import Sampling, SpeechRequest, Voice
from tiny.qwen3_tts import Tiny, write

TEXTS = ("One.", "A few words more.", "And a sentence of ordinary length, spoken without hurry.")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    write(folder, Tiny())
    return folder


def start(checkpoint: Path, graphs: bool) -> Engine:
    found = find(str(checkpoint))
    flags = {
        "model": str(checkpoint),
        "device": "cpu",
        "threads": 1,
        "graphs": graphs,
        "limits": {"max_concurrency": 4, "max_positions": 256},
    }
    return Engine(found.spec, resolve(env={}, flags=flags), Source(found.checkpoint, found.config)).start()


@pytest.fixture(scope="module")
def traced(checkpoint: Path) -> Iterator[Engine]:
    engine = start(checkpoint, graphs=True)
    yield engine
    engine.stop()


def codes(engine: Engine, requests: list[SpeechRequest]) -> list[np.ndarray]:
    """Of each request, as the codec was given them."""
    given: dict[int, list[np.ndarray]] = {}
    codec = engine.pipeline.workers["vocode"]
    decode = type(codec).decode

    def record(window, rows, state):
        for slot, row in zip(rows.slots.tolist(), window.frames.numpy(), strict=True):
            given.setdefault(slot, []).append(row.copy())
        return decode(codec, window, rows, state)

    codec.decode = record
    for speech in [engine.submit(request) for request in requests]:
        assert sum(chunk.samples.shape[1] for chunk in speech) > 0
    del codec.decode
    return sorted((np.concatenate(frames) for frames in given.values()), key=lambda frames: frames.tobytes())


@pytest.mark.parametrize(
    "wish",
    [
        Sampling(temperature=0),
        Sampling(top_p=0.8),
        *(pytest.param(one, marks=pytest.mark.slow) for one in (Sampling(), Sampling(top_k=0))),
    ],
)
@pytest.mark.parametrize("listeners", [1, 3])
def test_a_recorded_frame_is_the_frame_it_was_recorded_from(checkpoint, traced, wish, listeners):
    requests = [
        SpeechRequest(text, Voice(name="aiden"), "English", sampling=wish, seed=seed, max_frames=40)
        for seed, text in enumerate(TEXTS[:listeners])
    ]
    eager = start(checkpoint, graphs=False)
    try:
        expected = codes(eager, requests)
    finally:
        eager.stop()
    found = codes(traced, requests)
    assert len(found) == listeners
    assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))


def test_nothing_that_changes_is_a_constant_of_a_recording(traced):
    stage = traced.pipeline.stages["talk"]
    recordings = stage._launcher._graphs[()]
    assert [size for size, _ in recordings] == [1, 4]
    changing = {t.untyped_storage().data_ptr() for t in (*stage._memory.tensors(), *stage._streams[0].tensors())}
    constants = [
        node.t("value").untyped_storage().data_ptr()
        for _, recording in recordings
        for node in recording._launch.graph.nodes()
        if node.kind() == "prim::Constant"
        and node.output().type().kind() == "TensorType"
        and node.hasAttribute("value")
    ]
    assert constants
    assert not changing & set(constants)


def test_without_graphs_nothing_is_recorded(checkpoint):
    engine = start(checkpoint, graphs=False)
    engine.stop()
    assert not engine.pipeline.stages["talk"]._launcher._graphs


def test_what_cannot_be_recorded_runs_all_the_same(checkpoint, traced, monkeypatch):
    from rhapsode.nn.kernels.sampling import Settings

    monkeypatch.setattr(Settings, "partial_k", lambda settings: torch.tensor(int(settings.top_k.max())))
    engine = start(checkpoint, graphs=True)
    request = SpeechRequest(TEXTS[0], Voice(name="aiden"), "English", seed=1, max_frames=20)
    try:
        assert not engine.pipeline.stages["talk"]._launcher._graphs
        assert np.array_equal(codes(engine, [request])[0], codes(traced, [request])[0])
    finally:
        engine.stop()


@pytest.mark.parametrize(("long_ones", "recorded"), [(0, True), (1, True), (9, False)])
def test_a_launch_that_is_long_only_at_first_is_recorded(monkeypatch, long_ones: int, recorded: bool) -> None:
    """The first may import half a compiler; one that stays long is arithmetic, and gains nothing."""
    took = iter([LONG_S * 2] * long_ones + [LONG_S / 9] * 9)
    launcher = Launcher(lambda slots: slots + 1, 0, torch.device("cpu"))
    monkeypatch.setattr(launcher, "_eager_s", lambda statics: next(took))
    launcher.capture(4)
    assert bool(launcher._graphs) is recorded
