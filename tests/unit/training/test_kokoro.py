"""The speech teacher: its network runs as it was exported, its passages come apart at the pauses."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import corpus
import everyday
import voices
from graph import Graph
from kokoro import _quietest, passages
from phonemes import Line, mixed, respelled
from pulses import HOP


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """A convolution, its length, and a slice that depends on it."""
    nodes = [
        ("Conv", ["x", "kernel", "bias"], "heard", {"pads": [1, 1], "strides": [1], "dilations": [1], "group": 1}),
        ("Shape", ["heard"], "shape", {}),
        ("Gather", ["shape", "last"], "length", {"axis": 0}),
        ("Sub", ["length", "one"], "end", {}),
        ("Unsqueeze", ["end", "zero"], "ends", {}),
        ("Slice", ["heard", "zero", "ends", "two"], "y", {}),
    ]
    described = [{"op": op, "inputs": ins, "outputs": [out], "attributes": at} for op, ins, out, at in nodes]
    (tmp_path / "graph.json").write_text(json.dumps({"inputs": ["x"], "outputs": ["y"], "nodes": described}))
    numbers = {"last": torch.tensor(2), "one": torch.tensor(1), "zero": torch.tensor([0]), "two": torch.tensor([2])}
    save_file({"kernel": torch.randn(4, 3, 3), "bias": torch.randn(4), **numbers}, tmp_path / "weights.safetensors")
    return tmp_path


def test_a_graph_gives_what_its_operators_say(graph: Path) -> None:
    net = Graph(graph, torch.device("cpu"), kept=("heard",))
    x = torch.randn(1, 3, 9)
    found = net.run({"x": x})
    assert found["y"].shape == (1, 4, 8)
    assert torch.equal(found["y"], found["heard"][..., :-1])
    doubled = net.run({"x": x}, {"heard": lambda value: value * 2})
    assert torch.equal(doubled["y"], found["y"] * 2)


def test_a_cut_is_where_it_is_quiet() -> None:
    audio = np.ones(20 * HOP, np.float32)
    audio[7 * HOP - 500 : 7 * HOP + 500] = 0
    assert _quietest(audio, 5 * HOP, 9 * HOP) == 7


def test_passages_hold_all_sentences_in_order(tmp_path: Path) -> None:
    import gzip

    path = tmp_path / "spoken.tsv.gz"
    with gzip.open(path, "wt") as out:
        out.writelines(f"Number {i}.\t{'a' * (5 + i)}\n" for i in range(30))
    found = list(passages(path, 60))
    assert [number for passage in found for number, _ in passage] == list(range(30))
    assert all(sum(len(sounds) for _, sounds in passage) <= 60 for passage in found)


def test_phonemes_are_never_taken_for_letters() -> None:
    said = respelled("bɹˈɛkfəst, nˈudᵊlz?")
    assert not any(sound.isascii() and sound.isalpha() for sound in said)
    assert [mark for mark in said if mark in ",? "] == [",", " ", "?"]
    line = Line("Breakfast, noodles?", "bɹˈɛkfəst, nˈudᵊlz?")
    seen = {mixed(line, random.Random(seed)) for seed in range(60)}
    assert {line.text, said} <= seen
    assert len(seen) == 4  # and each of the two words in letters


def test_a_mixture_is_the_same_each_time_and_unlike_others(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name in (*voices.PRESETS.values(), *voices.UNSEEN):
        rng.standard_normal((510, 256)).astype(np.float32).tofile(tmp_path / f"{name}.bin")
    known = voices.Voices(tmp_path)
    assert np.array_equal(known.style(-3, 50), known.style(-3, 50))
    assert not np.allclose(known.style(-3, 50), known.style(-4, 50))
    assert np.array_equal(known.style(0, 900), known.of("af_heart", voices.LONGEST_STYLE))
    assert {voices.chosen(i, 0.0) for i in range(12)} == set(range(6))
    assert any(voices.chosen(i, 0.5) < 0 for i in range(12))


def test_prompts_of_the_evaluation_are_known_however_they_are_written() -> None:
    held_out = corpus.held_out()
    assert corpus.key("someone is knocking, at the door") in held_out
    assert corpus.key("Nobody ever said this before.") not in held_out


def test_long_sentences_stay_below_the_limit() -> None:
    rng = random.Random(0)
    made = [everyday.sentence(rng) for _ in range(500)]
    assert not any("{" in line for line in made)
    long = list(corpus.lengthened(made, 50, rng))
    assert max(map(len, long)) <= corpus.MOST_LETTERS
    assert max(map(len, long)) > 150
