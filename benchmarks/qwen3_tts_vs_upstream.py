"""Our frames against upstream's, on the same checkpoint, on this machine, in one run.

    python benchmarks/qwen3_tts_vs_upstream.py --upstream path/to/upstream-venv/bin/python
    python benchmarks/qwen3_tts_vs_upstream.py --upstream ... --shape qwen3-tts-1.7b --device cuda --frames 52

`tools/golden/README.md` says how to make upstream's environment. Without a shape, a tiny checkpoint is spoken greedily;
with one, both sides fill that shape with random weights of their own and draw as they do by default. Rounds alternate,
and the ratios are of medians, with the spread beside them.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from safetensors.torch import save_file

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from rhapsode.bench.engine.subject import SHAPES  # noqa: E402
from rhapsode.config import resolve  # noqa: E402
from rhapsode.engine import Engine, Source  # noqa: E402
from rhapsode.models.registry import find  # noqa: E402
from rhapsode.types import Sampling, SpeechRequest, Voice  # noqa: E402
from tiny import qwen_tokenizer  # noqa: E402
from tiny.qwen3_tts import PREPROCESSOR_CONFIG, Tiny, write  # noqa: E402

TEXT = "A sentence of ordinary length, spoken without hurry."
UPSTREAM = """
import json, sys, time
tools, folder, text, device, random = sys.argv[1:]
sys.path.insert(0, tools); import stubs; stubs.install()
import torch; torch.manual_seed(0)
import transformers; transformers.logging.set_verbosity_error()
from qwen_tts import Qwen3TTSModel
dtype = torch.float32 if device == "cpu" else torch.bfloat16
model = Qwen3TTSModel.from_pretrained(folder, dtype=dtype, device_map=device)
say = dict(text=text, speaker="aiden", language="English")
if random == "True":
    with torch.no_grad():
        for net in (model.model, model.model.speech_tokenizer.model):
            for name, weight in net.named_parameters():
                if weight.dim() > 1: weight.normal_(0, weight.shape[-1] ** -0.5)
                else: weight.fill_(float("norm" in name and name.endswith("weight")))
            for name, values in net.named_buffers():
                if name.endswith(("embed_sum", "embedding_sum")): values.normal_()
                if name.endswith("cluster_usage"): values.fill_(1)
else:
    say.update(do_sample=False, subtalker_dosample=False)
model.generate_custom_voice(**say, max_new_tokens=4)
print("ready", flush=True)
for line in sys.stdin:
    started = time.perf_counter()
    waves, rate = model.generate_custom_voice(**say, max_new_tokens=int(line) + 1)
    print(json.dumps([time.perf_counter() - started, len(waves[0]) / rate * 12.5]), flush=True)
"""


class Upstream:
    """The reference, in a process of its own."""

    def __init__(self, python: str, folder: str, device: str, random: bool) -> None:
        command = [*shlex.split(python), "-c", UPSTREAM, str(ROOT / "tools" / "golden"), folder, TEXT, device]
        self._process = subprocess.Popen(
            [*command, str(random)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        while (line := self._line()) != "ready":
            print(f"upstream: {line}", file=sys.stderr)

    def frame_s(self, frames: int) -> float:
        """Seconds for each frame of one utterance that ends of itself or after so many."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{frames}\n")
        self._process.stdin.flush()
        took_s, made = json.loads(self._line())
        return float(took_s / made)

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("upstream ended before it was done.")
        return line.strip()


def write_shape(folder: Path, name: str) -> None:
    """A published shape that upstream will load too: its files, a small tokenizer, and weights nobody has yet."""
    shutil.copytree(SHAPES / name, folder, dirs_exist_ok=True)
    ids = qwen_tokenizer.write(folder)
    settings = json.loads((folder / "config.json").read_text())
    settings |= {
        "im_start_token_id": ids["<|im_start|>"],
        "im_end_token_id": ids["<|im_end|>"],
        "tts_pad_token_id": ids["<tts_pad>"],
        "tts_bos_token_id": ids["<tts_text_bos>"],
        "tts_eos_token_id": ids["<tts_text_eod>"],
    }
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "speech_tokenizer" / "preprocessor_config.json").write_text(json.dumps(PREPROCESSOR_CONFIG))
    for part in (folder, folder / "speech_tokenizer"):
        save_file({"none": torch.zeros(1)}, part / "model.safetensors", metadata={"format": "pt"})


def frame_s(engine: Engine, listeners: int, frames: int, greedy: bool) -> float:
    """Seconds for each frame until this many listeners have heard this many each."""
    sampling = Sampling(temperature=0) if greedy else Sampling()
    request = SpeechRequest(TEXT, Voice(name="aiden"), "English", sampling=sampling, max_frames=frames)
    started_s = time.perf_counter()
    speeches = [engine.submit(request) for _ in range(listeners)]
    for speech in speeches:
        for _ in speech:
            pass
    made = max(speech.outcome.frames for speech in speeches if speech.outcome)
    return (time.perf_counter() - started_s) / made


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--upstream", help="the python of an environment that has qwen-tts")
    arguments.add_argument("--shape", help="a published shape with random weights, instead of a tiny checkpoint")
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--frames", type=int, default=32)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--listeners", type=int, default=8)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.shape:
            write_shape(Path(folder), given.shape)
        else:
            write(Path(folder), Tiny())
        found = find(folder)
        limits = {"max_positions": 512, "max_concurrency": given.listeners}
        threads = {"threads": 1} if given.device == "cpu" else {}
        random = given.shape is not None
        flags = {"model": folder, "device": given.device, "limits": limits, "random_weights": random, **threads}
        deployment = resolve(env={}, flags=flags)
        upstream = Upstream(given.upstream, folder, given.device, random) if given.upstream else None
        with Engine(found.spec, deployment, Source(found.checkpoint, found.config)) as ours:
            frame_s(ours, given.listeners, given.frames, not random)  # warm up
            alone, crowd, theirs = [], [], []
            for _ in range(given.rounds):
                alone.append(frame_s(ours, 1, given.frames, not random))
                crowd.append(frame_s(ours, given.listeners, given.frames, not random))
                if upstream:
                    theirs.append(upstream.frame_s(given.frames))
        if upstream:
            upstream.stop()
    what = f"{given.shape}, random weights" if random else "tiny checkpoint, greedy"
    print(f"{what}, {given.device}, {given.frames} frames, {given.rounds} alternating rounds; median (least-most)")
    print(f"ours, 1 listener            {spread([t * 1e3 for t in alone])} ms per frame, codec and prompt included")
    print(f"ours, {given.listeners} listeners           {spread([t * 1e3 for t in crowd])} ms per frame of all")
    print(f"{given.listeners} listeners / 1 listener    {spread([c / a for c, a in zip(crowd, alone, strict=True)])} x")
    if theirs:
        print(f"upstream, 1 listener        {spread([t * 1e3 for t in theirs])} ms per frame")
        print(f"upstream / ours             {spread([u / a for u, a in zip(theirs, alone, strict=True)])} x")


if __name__ == "__main__":
    main()
