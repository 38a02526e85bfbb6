"""Whole speech in the engine: what a deployment chooses, and what is heard at the end."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rhapsode.config import resolve
from rhapsode.engine import Engine, Source
from rhapsode.models.chatterbox import sound
from rhapsode.models.registry import find
from rhapsode.testing.subject import speak
from rhapsode.types import SpeechRequest
from tiny.chatterbox import ENDING, HOP, write

TEXT = "Good day to you."
GUIDED = {"cfg_weight": 0.7, "exaggeration": 0.8}
CHUNKS = (
    {"first": 1, "growth": 2, "largest": 16},
    {"first": 7, "largest": 7},
    {"first": 200, "largest": 200, "ring": 512},
)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("llama"), ENDING["original"], ENDING["multilingual"])


@contextmanager
def running(folder: Path, chunks: dict[str, int] = CHUNKS[0], **options: Any) -> Iterator[Engine]:
    limits = {"max_concurrency": 2, "max_positions": 1024}
    flags = {
        "model": str(folder),
        "device": "cpu",
        "dtype": "float64",
        "threads": 1,
        "limits": limits,
        "chunks": chunks,
    }
    found = find(str(folder))
    with Engine(found.spec, resolve(env={}, flags={**flags, "options": options}), Source(found.checkpoint, {})) as made:
        yield made


def said(folder: Path, chunks: dict[str, int] = CHUNKS[0], deployment: dict[str, Any] | None = None, **wishes: Any):
    with running(folder, chunks, **(deployment or {})) as engine:
        return speak(engine, SpeechRequest(TEXT, seed=7, **wishes))


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_the_last_token_of_the_multilingual_model_is_solved_and_not_heard(
    llama: Path, chunks: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = said(llama, chunks, {"t3": "multilingual"}, language="fr")
    monkeypatch.setattr(sound, "UNHEARD_TOKENS", 0)
    whole = said(llama, chunks, {"t3": "multilingual"}, language="fr")
    assert heard.shape[1] == whole.shape[1] - HOP > 0
    np.testing.assert_allclose(heard, whole[:, :-HOP], atol=1e-6)


def test_prefix_solves_are_heard_alike_however_they_are_cut_and_are_not_one_pass(llama: Path) -> None:
    prefix = {"t3": "original", "stream": "prefix", "block_tokens": 4}
    one, *others = (said(llama, chunks, prefix, options=GUIDED) for chunks in CHUNKS)
    for other in others:
        np.testing.assert_allclose(other, one, atol=1e-6)
    whole = said(llama, deployment={"t3": "original"}, options=GUIDED)
    assert whole.shape == one.shape
    assert whole.shape[1] > 8 * HOP
    assert np.abs(whole - one).max() > 1e-3


def test_no_weight_is_the_conditional_sequence_alone(llama: Path) -> None:
    weightless = said(llama, options={"cfg_weight": 0.0})
    np.testing.assert_allclose(weightless, said(llama, deployment={"guidance": False}), atol=1e-6)
    guided = said(llama)
    assert guided.shape != weightless.shape or np.abs(guided - weightless).max() > 1e-3


def test_turbo_ends_with_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path, ENDING["turbo"])
    with running(folder) as engine:
        tokens = []
        flow = engine.pipeline.workers["flow"]
        real = flow.decode

        def decode(window: Any, rows: Any, state: Any) -> Any:
            tokens.append(window.frames[0, window.present[0], 0].tolist())
            return real(window, rows, state)

        monkeypatch.setattr(flow, "decode", decode)
        samples = speak(engine, SpeechRequest(TEXT, seed=7))
    (spoken,) = tokens
    assert spoken[-3:] == [4299] * 3
    assert samples.shape[1] == len(spoken) * HOP
    assert max(spoken) < 6561
