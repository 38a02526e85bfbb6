import struct

import pytest

from rhapsode.bench.plots import draw
from rhapsode.bench.report import Run, compose
from rhapsode.bench.stats import summarize


def size_of(png):
    data = png.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", data[16:24])


def engine_report():
    def run(mode, batch):
        facts = {
            "mode": mode,
            "batch": batch,
            "frames": 52,
            "breakdown_ms": {"talker": batch, "codec": 1.0, "host": 0.2},
        }
        samples = {"audio_s_per_s": [batch * 8.0, batch * 9.0], "first_audio_ms": [10.0 + batch]}
        return Run(f"{mode}, batch {batch}", samples, {**facts, "floor_ms": 0.8})

    return compose("engine", {"subject": "a shape"}, 0, [run(m, b) for m in ("graphs", "eager") for b in (1, 8, 32)])


def serve_report(loads):
    def run(kind, level):
        facts = {"load": kind, "level": level, "audio_s_per_s": level * 10.0, "underruns": int(level > 4)}
        return Run(f"{kind} {level}", {"first_playable_ms": [10.0 * level, 12.0 * level]}, facts)

    return compose("serve", {"url": "http://x"}, 0, [run(kind, level) for kind, level in loads])


def quality_report():
    samples = {"wer": [0.0, 0.1, 0.6]}
    assert summarize(samples["wer"]).n == 3
    return compose("quality", {"family": "hibari"}, 0, [Run("all prompts", samples, {"wer": 0.05})])


@pytest.mark.parametrize(
    ("report", "names"),
    [
        (engine_report(), ["breakdown", "throughput", "latency"]),
        (serve_report([("closed", 1), ("closed", 8), ("open", 0.5)]), ["latency-closed", "latency-open", "throughput"]),
        (serve_report([("open", 2), ("open", 4)]), ["latency-open"]),
        (serve_report([("burst", 4)]), ["latency-burst", "throughput"]),
        (serve_report([("first burst", 4), ("burst", 4)]), ["latency-burst", "throughput"]),
        (serve_report([("first burst", 4)]), []),
        (quality_report(), ["wer"]),
    ],
)
def test_each_report_gets_the_plots_it_has_data_for(report, names, tmp_path):
    written = draw(report, tmp_path / "run.json")
    assert [path.name for path in written] == [f"run-{name}.png" for name in names]
    for path in written:
        width, height = size_of(path)
        assert width >= 1000
        assert height >= 600
