"""Trains the acoustic model of the aligner.

    python train_aligner.py aligner_sentences.txt.gz SHARDS MODEL --packed SPEECH --model teacher.onnx --minutes 6

SHARDS fill up while this runs (`aligner_data.py`, started here). Every frame is asked for the letter said in it. The
target of a frame mixes two distributions:

- letters spread evenly over the phonemes of their word (`_spread`), which also works at any pace;
- the posterior of all CTC paths that say each letter within the time of its word (`_posterior`): expectation
  maximisation, which learns how letters share the time of a word, while words stay where the teacher said them.

Resumes from MODEL where it holds weights. Prints losses; writes float16 weights every minute and at the end.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor

from aligner_data import start
from aligner_noise import disturbed
from aligner_pack import read_packed
from aligner_speech import SYMBOLS, read_utterances
from aligner_store import SPACE, RowBatch, SpeechStore
from rhapsode.alignment.network import FRAME, OVERLAP, AcousticConfig, AcousticNetwork
from schedule import Averages, Clock, Optimiser, described

FRAMES_PER_S = 50
LATE_FRAMES = 2
"""Labels are late inside a phrase, where hibari's durations are further behind its sound than after silences."""
SHARES = {"teacher": 0.6, "packed": 0.4}
WARM_UP = 300
_FORBIDDEN = -12.0
_BLANK = -2.0  # blanks are for double letters: everything else lasts


def _windows(batch: RowBatch) -> tuple[Tensor, Tensor]:
    """Returns the first frame of each symbol and the one after its last: [B, S]. A space has at least one."""
    first, last = (batch.times[..., 2:] * FRAMES_PER_S).round().unbind(-1)
    close = (batch.symbols == SPACE) & (last <= first)
    return torch.where(close, first - 1, first), torch.where(close, first + 1, last)


def _spread(batch: RowBatch, frames: int) -> Tensor:
    """Returns the share of every frame that each symbol takes: [B, T, symbols]."""
    start, end = (batch.times[..., :2] * FRAMES_PER_S).unbind(-1)
    middle, half = (start + end) / 2, ((end - start) / 2).clamp(min=0.25)
    at = torch.arange(frames, device=start.device)[:, None]
    late, early = (middle + half)[:, None], (middle - half)[:, None]  # [B, 1, S]
    overlap = (torch.minimum(late, at + 1) - torch.maximum(early, at)).clamp(min=0)
    overlap = overlap * (batch.symbols > 0)[:, None]
    shares = overlap @ F.one_hot(batch.symbols, len(SYMBOLS)).float()
    return shares / shares.sum(-1, keepdim=True).clamp(min=1e-6)


def _posterior(log_probs: Tensor, batch: RowBatch) -> Tensor:
    """Returns the posterior of symbols over all CTC paths that stay within the times of the words: [B, T, symbols]."""
    frames = log_probs.shape[1]
    first, last = _windows(batch)
    at = torch.arange(frames, device=first.device)[:, None]
    inside = (at >= first[:, None]) & (at < last[:, None]) & (batch.symbols > 0)[:, None]  # [B, T, S]
    allowed = (inside.float() @ F.one_hot(batch.symbols, len(SYMBOLS)).float()) > 0
    bias = torch.where(allowed, 0.0, _FORBIDDEN)
    bias[..., 0] = _BLANK
    scores = (log_probs.detach().float() + bias).transpose(0, 1).contiguous().requires_grad_()  # [T, B, symbols]
    lengths, counts = (frames,) * len(batch.counts), tuple(batch.counts)
    with torch.enable_grad():
        loss = F.ctc_loss(scores, batch.symbols, lengths, counts, reduction="none", zero_infinity=True)
        (gradient,) = torch.autograd.grad(loss.sum(), scores)
    found = (scores.detach().exp() - gradient).clamp(min=0).transpose(0, 1)  # its gradient is probability - posterior
    return found / found.sum(-1, keepdim=True).clamp(min=1e-6)


class AlignerTraining:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        sizes = {"width": options.width, "hidden": 3 * options.width, "blocks": options.blocks}
        self.network = AcousticNetwork(AcousticConfig(SYMBOLS, "en", late=LATE_FRAMES, **sizes)).to(self.device).train()
        if (options.output / "model.safetensors").exists():
            self.network.load_state_dict(load_file(options.output / "model.safetensors"), strict=True)
        self.optimiser = Optimiser(list(self.network.parameters()), (0.9, 0.98), 0.01, 1.0)
        self.averages = Averages(("loss", "spread", "path", "right", "grad"), self.device)
        self.store = SpeechStore(options.hours, self.device)
        self.rng = np.random.default_rng(int(time.time()))
        self._seen: set[Path] = set()
        readers = ThreadPoolExecutor(3)
        self._packed = [readers.submit(read_packed, path) for path in sorted(options.packed.glob("*.xz"))]

    def load(self, most: int) -> None:
        """Adds speech that has appeared since the last call."""
        new = [path for path in sorted(self.options.shards.glob("*.npz")) if path not in self._seen][:most]
        for path in new:
            self._seen.add(path)
            self.store.add("teacher", read_utterances(path))
        if self._packed and self._packed[0].done():
            self.store.add("packed", self._packed.pop(0).result())

    @property
    def ready(self) -> bool:
        return set(self.store.groups) == set(SHARES)

    def log_probs(self, audio: Tensor) -> Tensor:
        """Returns `[B, T, symbols]` for `audio [B, T * FRAME]`, as a stream would after its end."""
        ahead = self.network.config.look_ahead
        x = self.network.features(F.pad(audio, (OVERLAP, ahead * FRAME)))
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            found, _ = self.network(_masked(x), self.network.fresh(len(x)))
        return found[:, ahead:]

    def step(self, number: int, share: float) -> None:
        options = self.options
        batch = self.store.draw(options.rows, options.row_s, SHARES, self.rng)
        log_probs = self.log_probs(disturbed(batch.audio))
        spread = _spread(batch, log_probs.shape[1])
        path = _posterior(log_probs, batch)
        weight = max(0.2, 1 - 3 * share)  # of letters spread evenly: all at first
        target = weight * spread + (1 - weight) * path
        loss = -(target * log_probs).sum(-1).mean()
        rate = options.rate * min(1, number / WARM_UP) * (0.5 + 0.5 * math.cos(math.pi * share)) + 1e-6
        self.optimiser.set_rate(rate)
        size = self.optimiser.descend(loss)
        with torch.no_grad():
            right = (log_probs.argmax(-1) == target.argmax(-1)).float().mean()
            each = [-(one * log_probs).sum(-1).mean() for one in (spread, path)]
        self.averages.add(loss, *each, right, size)

    def save(self) -> None:
        folder = self.options.output
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {
            name: tensor.detach().half().cpu().contiguous() for name, tensor in self.network.state_dict().items()
        }
        save_file(tensors, folder / "model.safetensors.part")
        (folder / "model.safetensors.part").rename(folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(asdict(self.network.config), indent=1) + "\n")


def _masked(x: Tensor) -> Tensor:
    """Hides up to eight neighbouring bands in a third of the rows."""
    bands, device = x.shape[-1] // 2, x.device
    low = torch.randint(0, bands - 8, (len(x), 1, 1), device=device)
    width = torch.randint(0, 9, (len(x), 1, 1), device=device) * (torch.rand(len(x), 1, 1, device=device) < 0.33)
    band = torch.arange(2 * bands, device=device) % bands
    return torch.where((band >= low) & (band < low + width), -1.0, x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sentences", type=Path)
    parser.add_argument("shards", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--packed", type=Path, required=True, help="speech of other engines (aligner_pack.py)")
    parser.add_argument("--model", default="teacher.onnx")
    parser.add_argument("--processes", type=int, default=13)
    parser.add_argument("--minutes", type=float, default=6.0)
    parser.add_argument("--hours", type=float, default=24.0, help="of speech that is enough")
    parser.add_argument("--rows", type=int, default=48)
    parser.add_argument("--row-s", type=float, default=12.0)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--blocks", type=int, default=8)
    options = parser.parse_args()
    clock = Clock(options.minutes)
    team = start(options.sentences, options.shards, options.model, options.processes, 60 * options.minutes - 30)
    run = AlignerTraining(options)
    while not run.ready:
        run.load(4)
        time.sleep(0.1)
    print(f"first speech after {clock.elapsed:.0f} s; trains on {run.device}", flush=True)
    saved = said = time.monotonic()
    for step in clock.ticks():
        run.step(step, clock.share)
        if step % 10 == 0 and not run.store.full:
            run.load(8)
        if run.store.full and team:
            for member in team:
                member.terminate()
            team = []
        now = time.monotonic()
        if now - said > 10:
            said = now
            losses = described(run.averages.read())
            print(f"{clock.elapsed:4.0f} s  step {step}  {run.store.hours:.1f} h  {losses}", flush=True)
        if now - saved > 60:
            saved = now
            run.save()
    run.save()
    print(f"done: {step + 1} steps, {run.store.hours:.1f} hours, {clock.elapsed:.0f} s", flush=True)
    for member in team:
        member.terminate()


if __name__ == "__main__":
    main()
