"""Our frames against upstream's, on the same tiny checkpoint, on this machine, in one run.

    python benchmarks/qwen3_tts_vs_upstream.py --upstream path/to/upstream-venv/bin/python

`tools/golden/README.md` says how to make upstream's environment. Both sides speak greedily; rounds alternate, and the
ratios are of medians, with the spread beside them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from rhapsode.config import resolve  # noqa: E402
from rhapsode.engine import Engine, Source  # noqa: E402
from rhapsode.models.registry import find  # noqa: E402
from rhapsode.types import Sampling, SpeechRequest, Voice  # noqa: E402
from tiny.qwen3_tts import Tiny, write  # noqa: E402

TEXT = "A sentence of ordinary length, spoken without hurry."
UPSTREAM = """
import json, sys, time
sys.path.insert(0, sys.argv[1]); import stubs; stubs.install()
import torch; torch.manual_seed(0)
from qwen_tts import Qwen3TTSModel
model = Qwen3TTSModel.from_pretrained(sys.argv[2], dtype=torch.float32)
say = dict(text=sys.argv[3], speaker="aiden", language="English", do_sample=False, subtalker_dosample=False)
model.generate_custom_voice(**say, max_new_tokens=4)
print("ready", flush=True)
for line in sys.stdin:
    started = time.perf_counter()
    model.generate_custom_voice(**say, max_new_tokens=int(line) + 1)
    print(time.perf_counter() - started, flush=True)
"""


def speak_s(engine: Engine, listeners: int, frames: int) -> float:
    """Seconds until this many listeners have heard this many frames each."""
    request = SpeechRequest(TEXT, Voice(name="aiden"), "English", sampling=Sampling(temperature=0), max_frames=frames)
    started_s = time.perf_counter()
    for speech in [engine.submit(request) for _ in range(listeners)]:
        for _ in speech:
            pass
    return time.perf_counter() - started_s


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--upstream", help="the python of an environment that has qwen-tts")
    arguments.add_argument("--frames", type=int, default=32)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--listeners", type=int, default=8)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), Tiny())
        found = find(folder)
        deployment = resolve(
            env={}, flags={"model": folder, "device": "cpu", "threads": 1, "limits": {"max_positions": 512}}
        )
        upstream = None
        if given.upstream:
            command = [given.upstream, "-c", UPSTREAM, str(ROOT / "tools" / "golden"), folder, TEXT]
            upstream = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert upstream.stdout is not None
            while upstream.stdout.readline().strip() != "ready":
                pass
        with Engine(found.spec, deployment, Source(found.checkpoint, found.config)) as engine:
            speak_s(engine, given.listeners, given.frames)  # warm up
            alone, crowd, theirs = [], [], []
            for _ in range(given.rounds):
                alone.append(speak_s(engine, 1, given.frames))
                crowd.append(speak_s(engine, given.listeners, given.frames))
                if upstream:
                    assert upstream.stdin is not None
                    assert upstream.stdout is not None
                    upstream.stdin.write(f"{given.frames}\n")
                    upstream.stdin.flush()
                    theirs.append(float(upstream.stdout.readline()))
        if upstream:
            assert upstream.stdin is not None
            upstream.stdin.close()
            upstream.wait(30)
    ms = [t / given.frames * 1e3 for t in alone]
    print(f"tiny checkpoint, {given.frames} frames, greedy, {given.rounds} alternating rounds; median (least-most)")
    print(f"ours, 1 listener            {spread(ms)} ms per frame, codec included")
    crowd_ms = [t / given.frames * 1e3 for t in crowd]
    print(f"ours, {given.listeners} listeners           {spread(crowd_ms)} ms per frame of all")
    print(f"{given.listeners} listeners / 1 listener    {spread([c / a for c, a in zip(crowd, alone, strict=True)])} x")
    if theirs:
        print(f"upstream, 1 listener        {spread([t / given.frames * 1e3 for t in theirs])} ms per frame")
        print(f"upstream / ours             {spread([u / a for u, a in zip(theirs, alone, strict=True)])} x")
    print(json.dumps({"ours_ms": ms, "crowd_s": crowd, "upstream_s": theirs}))


if __name__ == "__main__":
    main()
