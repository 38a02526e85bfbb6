"""`rhapsode bench` as a user types it, small, on whatever machine this is."""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

from rhapsode.bench.quality.prompts import read_prompts
from rhapsode.cli.main import app
from rhapsode.config import DEFAULT_MODEL, resolve
from rhapsode.errors import InvalidRequest
from rhapsode.models.registry import find
from unit.bench.fake_server import Script, recogniser_saying, serving_in_thread, tone
from unit.bench.reports import check
from unit.command import environment


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def bench(*arguments):
    """What the command prints; it must succeed."""
    done = CliRunner().invoke(app, ["bench", *arguments])
    if done.exception is not None:
        raise done.exception
    return done.output


def test_engine_on_the_dummy_family(tmp_path):
    shown = bench(
        *("engine", "-m", "dummy", "--batch", "1,4", "--frames", "10", "--rounds", "2", "--device", "cpu"),
        *("--bandwidth", "10", "--plot"),
    )
    report = check(tmp_path / "bench-engine.json")
    assert "eager, batch 4" in shown
    assert "graphs, batch 4" in shown
    assert [run["frames"] for run in report["runs"]] == [10] * 4  # both batches, both ways
    assert sorted(path.name for path in tmp_path.glob("*.png")) == [
        "bench-engine-breakdown.png",
        "bench-engine-latency.png",
        "bench-engine-throughput.png",
    ]


@pytest.mark.slow
def test_engine_on_the_default_voice(tmp_path):
    bench(*("engine", "--batch", "1,2", "--rounds", "1", "--frames", "12", "--device", "cpu"), "--bandwidth", "10")
    config, runs = (check(tmp_path / "bench-engine.json")[part] for part in ("config", "runs"))
    assert (config["subject"], config["family"], config["weights"]) == (DEFAULT_MODEL, "qwen3-tts", "checkpoint")
    assert [run["frames"] for run in runs] == [12] * 4  # both batches, both ways


@pytest.mark.slow
def test_engine_on_a_generator(tmp_path):
    bench(*("engine", "-m", "hibari", "--batch", "1,2", "--rounds", "1", "--device", "cpu", "--bandwidth", "10"))
    report = check(tmp_path / "bench-engine.json")
    assert all(run["breakdown_ms"]["generator"] > 0 for run in report["runs"])
    assert all(run["summary"]["audio_s_per_s"]["p50"] > 1 for run in report["runs"])


@pytest.mark.slow
def test_serve_in_all_three_ways(tmp_path):
    script = Script([(0.02, tone(0.2)), (0.02, tone(0.2))])
    with serving_in_thread(script) as (url, log):
        shown = bench(
            *("serve", url, "--closed", "1,2", "--open", "20", "--burst", "3", "--requests", "4", "--text", "Hello."),
            *("--body", "max_new_tokens=52", "--plot", "-o", "load.json"),
        )
    report = check(tmp_path / "load.json")
    rows = {"closed, c=1": 4, "closed, c=2": 4, "open, 20/s": 4, "first burst of 3": 3, "burst of 3": 3}
    assert {run["label"]: run["completed"] for run in report["runs"]} == rows
    assert all(label in shown for label in rows)
    assert all(run["completed"] == run["requests"] for run in report["runs"])
    assert all(body["max_new_tokens"] == 52 for body in log.bodies)
    assert len(list(tmp_path.glob("load-*.png"))) == 4


@pytest.mark.parametrize(
    ("arguments", "labels"),
    [
        ((), ["closed, c=1", "closed, c=8"]),
        (("--burst", "2"), ["first burst of 2"]),
        (("--open", "50"), ["open, 50/s"]),
    ],
)
def test_serve_applies_the_loads_that_are_named_and_no_other(arguments, labels, tmp_path):
    with serving_in_thread(Script([(0, tone(0.1))])) as (url, _):
        bench("serve", url, *arguments, "--requests", "2", "--text", "Hello.")
    assert [run["label"] for run in check(tmp_path / "bench-serve.json")["runs"]] == labels


@contextmanager
def server_of(model, home):
    """`rhapsode serve` on a port nobody else has; its address, once it is ready."""
    command = [sys.executable, "-m", "rhapsode", "serve", model, "--port", "0", "--device", "cpu"]
    environ = environment(HOME=str(home), PYTHONUNBUFFERED="1")
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environ, cwd=home
    )
    try:
        line = next(line for line in server.stdout if "listening" in line)
        url = next(word for word in line.split() if word.startswith("http://"))
        give_up_s = time.monotonic() + 60
        while time.monotonic() < give_up_s:
            try:
                urllib.request.urlopen(f"{url}/health", timeout=60).close()
                break
            except urllib.error.URLError as error:
                getattr(error, "close", lambda: None)()
                time.sleep(0.1)
        yield url
    finally:
        server.terminate()
        server.communicate(timeout=30)


@pytest.mark.parametrize("model", ["dummy", pytest.param("hibari", marks=pytest.mark.slow)])
def test_serve_measures_this_projects_own_server(model, tmp_path):
    pytest.importorskip("fastapi")
    with server_of(model, tmp_path) as url:
        bench("serve", url, "--closed", "1,2", "--burst", "3", "--requests", "4", "--text", "Hello there.")
    report = check(tmp_path / "bench-serve.json")
    assert report["config"]["frame_hz"] == find(model).spec.frame_hz
    for run in report["runs"]:
        assert run["errors"] == {}
        assert run["completed"] == (3 if "burst" in run["load"] else 4)
        assert run["summary"]["rtf"]["p50"] < 5
        first = run["summary"]
        assert first["first_byte_ms"]["p50"] <= first["first_playable_ms"]["p50"] <= first["total_ms"]["p50"]


def test_a_shape_can_be_written_to_be_served(tmp_path):
    shown = bench("shape", "qwen3-tts-0.6b", "shape")
    assert "rhapsode serve --config shape/deployment.yaml" in shown
    deployment = resolve(tmp_path / "shape" / "deployment.yaml", env={})
    assert find(deployment.model).spec.name == "qwen3-tts"
    assert deployment.random_weights
    with pytest.raises(InvalidRequest, match="exists"):
        bench("shape", "qwen3-tts-0.6b", "shape")


@pytest.mark.slow
def test_quality_of_the_default_voice_repeats(tmp_path):
    said = [prompt.text for prompt in read_prompts(most=3)]
    heard = [*said[:2], said[2].replace("umbrella", "banana")]
    for name in ("one", "two"):
        with recogniser_saying(heard) as url:
            shown = bench("quality", "--most", "3", "--recogniser", url, "-o", f"{name}.json")
    one, two = check(tmp_path / "one.json"), check(tmp_path / "two.json")
    words = sum(len(text.split()) for text in said)
    assert one["runs"][0]["wer"] == pytest.approx(1 / words, rel=1e-4)
    assert "banana" in shown
    assert one["runs"][0]["audio_s"] > 3
    for first, second in zip(one["runs"][0]["items"], two["runs"][0]["items"], strict=True):
        assert (first["audio_s"], first["heard"]) == (second["audio_s"], second["heard"])
    assert "wer" in bench("compare", "one.json", "two.json")


def test_quality_of_the_dummy_family_is_a_number_too(tmp_path):
    with recogniser_saying(["beep beep"]) as url:
        bench("quality", "-m", "dummy", "--most", "1", "--recogniser", url)
    (run,) = check(tmp_path / "bench-quality.json")["runs"]
    assert run["samples_scored"] == 1
    assert run["wer"] > 0.5
    assert run["outliers"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["engine", "--batch", "1,x"], "whole numbers"),
        (["engine", "--mode", "fast"], "--mode"),
        (["engine", "-m", "dummy", "--random-weights", "x"], "not both"),
        (["serve", "http://x", "--closed", ""], "no load"),
        (["serve", "http://x", "--open", "-1"], "above zero"),
        (["compare", "a.json", "b.json"], "cannot read"),
    ],
)
def test_bad_wishes_are_one_sentence(arguments, words):
    with pytest.raises(InvalidRequest, match=words):
        bench(*arguments)


def test_a_report_is_plain_json(tmp_path):
    bench("engine", "-m", "dummy", "--batch", "1", "--frames", "4", "--rounds", "1", "--bandwidth", "1", "-o", "x.json")
    content = json.loads((tmp_path / "x.json").read_text())
    assert content["schema"] == 1
    assert content["machine"]["cores"] >= 1
