"""Trains talker and predictor on prompts with frames for some minutes; resumes where the last run stopped.

    python train_talker.py LINES MODEL --minutes 9

LINES is the output of `encode.py`, read as it appears. MODEL holds the tokenizer and the trained codec; the weights of
talker and predictor are added. After a share of the run (`--both-until`) only the predictor goes on: the talker learns
its prompts by heart long before the predictor stops to gain.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import shape
from codec import read_config
from export import write_tensors
from lines import Choice, Lines
from rhapsode.checkpoints.load import load
from rhapsode.device.upload import upload
from rhapsode.models.qwen3_tts.config import QwenConfig, read
from rhapsode.nn import kernels
from schedule import Averages, Captured, Clock, Optimiser, described
from talker import TrainableTalker


class Shelf:
    """Training prompts and validation prompts; both grow as files appear."""

    def __init__(self, folder: Path, config: QwenConfig, positions: int, device: torch.device) -> None:
        self._folder = folder
        self._seen: set[Path] = set()
        self.learned = Lines(config.groups, positions, config.talker.hidden_size, device)
        self.held_out = Lines(config.groups, 400_000, config.talker.hidden_size, device)

    def grow(self, files: int) -> None:
        new = [path for path in sorted(self._folder.glob("*.npz")) if path not in self._seen][:files]
        for path in new:
            self._seen.add(path)
            with np.load(path) as file:
                lines = self.held_out if file["held_out"] else self.learned
                lines.add(file["rows"], file["targets"], file["lengths"], file["speakers"])


class TalkerTraining:
    """One training step per prompt length, captured where possible."""

    def __init__(
        self, talker: TrainableTalker, shelf: Shelf, options: argparse.Namespace, predictor_only: bool = False
    ) -> None:
        self._talker, self._lines, self._held_out = talker, shelf.learned, shelf.held_out
        self._device = next(talker.parameters()).device
        self._positions, self._predicted = options.positions, options.predicted
        self._predictor_only = predictor_only
        learning = talker.predictor_weights() if predictor_only else list(talker.parameters())
        self.optimiser = Optimiser(learning, (0.9, 0.95), 0.05, clip=1.0)
        self.averages = Averages(("first", "rest", "hits", "gradient"), self._device)
        self._steps: dict[int, tuple[Tensor, Tensor, Captured]] = {}
        self._pool = torch.cuda.graph_pool_handle() if self._device.type == "cuda" else None

    def step(self, choice: Choice) -> None:
        if choice.longest not in self._steps:
            self._steps[choice.longest] = self._make(choice)
        starts, lengths, run = self._steps[choice.longest]
        starts.copy_(upload(choice.starts, self._device))
        lengths.copy_(upload(choice.lengths, self._device))
        run()

    def _make(self, choice: Choice) -> tuple[Tensor, Tensor, Captured]:
        starts, lengths = (torch.zeros(len(choice.starts), dtype=torch.int64, device=self._device) for _ in range(2))

        def run() -> None:
            with self._mixed():
                batch = self._lines.read(starts, lengths, choice.longest)
                losses = self._talker(batch, self._predicted, self._predictor_only)
            size = self.optimiser.descend(losses.rest if self._predictor_only else losses.first + losses.rest)
            self.averages.add(*losses, size)

        return starts, lengths, Captured(run, self._device, self._pool)

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        self._talker.eval()
        found = []
        for choice in self._held_out.batches(min(self._positions, 8192), np.random.default_rng(0)):
            starts, lengths = (upload(part, self._device) for part in (choice.starts, choice.lengths))
            with self._mixed():
                found.append(self._talker(self._held_out.read(starts, lengths, choice.longest), self._predicted // 4))
        self._talker.train()
        means = [torch.stack(part).mean().item() for part in zip(*found, strict=True)] if found else [0.0] * 3
        return dict(zip(("held out: first", "rest", "hits"), means, strict=True))

    def _mixed(self) -> torch.autocast:
        # What is cast is not kept: a graph must cast anew each time.
        gpu = self._device.type == "cuda"
        return torch.autocast(self._device.type, torch.bfloat16, enabled=gpu, cache_enabled=False)


def rate_at(share: float, step: int) -> float:
    """Learning rate: warm-up of 500 steps, then cosine decay."""
    return min(1.0, (step + 1) / 500) * (0.02 + 0.98 * (1 + math.cos(math.pi * share)) / 2)


def train(training: TalkerTraining, shelf: Shelf, clock: Clock, until: float, options: argparse.Namespace) -> None:
    """Trains until a share of the run is over."""
    lines, rng = shelf.learned, np.random.default_rng(int(time.time()))
    step, noted, begun = 0, time.monotonic(), clock.share
    while clock.share < until:
        for choice in lines.batches(options.positions, rng):
            if clock.share >= until:
                break
            training.optimiser.set_rate(options.rate * rate_at((clock.share - begun) / (until - begun), step))
            training.step(choice)
            step += 1
            if step % options.report == 0:
                took, noted = (time.monotonic() - noted) / options.report * 1e3, time.monotonic()
                means = described({**training.averages.read(), **training.validate()})
                size_of = f"{len(lines)} prompts, {lines.positions / 1e6:.1f}M positions"
                print(f"{clock.elapsed:5.0f} s  step {step}  {took:.0f} ms  {size_of}  {means}", flush=True)
            if step % 25 == 0 and clock.share < options.grow_until:
                before = lines.positions
                shelf.grow(40)
                if before < lines.positions / 1.5:
                    break  # much is new: begin another round


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lines", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--rate", type=float, default=1.2e-3)
    parser.add_argument("--positions", type=int, default=16_384, help="in a batch")
    parser.add_argument("--predicted", type=int, default=6_144, help="frames of a batch the predictor learns from")
    parser.add_argument("--room", type=int, default=60_000_000, help="positions to make room for")
    parser.add_argument("--first", type=int, default=2_000, help="prompts to wait for")
    parser.add_argument("--both-until", type=float, default=0.5, help="share of the run in which the talker learns")
    parser.add_argument("--dropout", type=float, default=0.15)
    parser.add_argument("--grow-until", type=float, default=0.85, help="share of the run in which prompts are added")
    parser.add_argument("--compile", action="store_true", help="compile the layers")
    parser.add_argument("--report", type=int, default=500)
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.manual_seed(0)
    clock = Clock(options.minutes)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    folder: Path = options.model
    shape.write(folder)
    config = read(read_config(folder), folder)
    talker = TrainableTalker(config, options.compile, options.dropout)
    if (folder / "model.safetensors").is_file():
        load(talker.net, folder, prefix="talker.", device=device)
        talker.requires_grad_(True)
    talker.to(device).train()
    shelf = Shelf(options.lines, config, options.room, device)
    with kernels.use("off"):
        while len(shelf.learned) < options.first:
            shelf.grow(1000)
            time.sleep(0.2)
        print(f"{_million(talker):.1f}M parameters, begun after {clock.elapsed:.0f} s", flush=True)
        train(TalkerTraining(talker, shelf, options), shelf, clock, options.both_until, options)
        print(f"{clock.elapsed:5.0f} s  from now on the predictor alone", flush=True)
        train(TalkerTraining(talker, shelf, options, predictor_only=True), shelf, clock, 1.0, options)
    write_tensors(folder / "model.safetensors", {"talker.": talker.net})


def _million(module: nn.Module) -> float:
    return sum(weight.numel() for weight in module.parameters()) / 1e6


if __name__ == "__main__":
    main()
