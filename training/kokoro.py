"""Kokoro-82M as a teacher: passages of several sentences, with its pitch pulses aligned to the codec's frames.

    python kokoro.py pack kokoro.onnx VOICES KOKORO
    python kokoro.py speak SPOKEN.tsv.gz KOKORO SHARDS --processes 3 --seconds 300

`pack` writes all that the training machine needs: the network as `graph.py` reads it, the English voices and the ids of
phonemes. `speak` writes shards as `teacher.py` does, with a voice for each utterance. A passage is spoken at once,
because one long text keeps a GPU busier than many short ones; it is then cut at the pauses between its sentences.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, multiprocessing

import phonemes
from graph import Graph, convert
from pulses import HOP, RATE, aligned
from teacher import LEAST_FRAMES, MOST_FRAMES, SHARD_FRAMES, STEP, Utterance, _framed, write_shard
from voices import TURNS, Voices, chosen

DURATIONS = "/encoder/Gather_output_0"
PHASE = "/decoder/decoder/generator/m_source/l_sin_gen/CumSum_output_0"
"""Names of inner values: the steps of each phoneme, and the running sum that gives the phase of each harmonic."""
SOURCE = "/decoder/decoder/generator/m_source/l_sin_gen/Mul_6_output_0"
"""The harmonics, zero where unvoiced. The published network has noise here, which its export as ONNX lacks: unvoiced
sounds would be made from rounding errors."""
BINS, ANGLES = "/decoder/decoder/generator/STFT_output_0", "/decoder/decoder/generator/Where_1_output_0"
"""The source's spectrum and its phase. The export turns half of the real bins the wrong way: it has minus pi for pi."""
NOISE, UNVOICED_NOISE = 0.003, 0.1 / 3
SPACING = 300
"""Samples between two values of the pitch."""
VOICED = 10.0
"""Hz from which on Kokoro has pulses."""
PASSAGE = 300
"""Phonemes of a passage, about: 20 seconds."""

Said = tuple[int, str]
"""The number of a sentence and its phonemes."""


class Kokoro:
    def __init__(self, folder: Path, device: torch.device, in_step: bool = True) -> None:
        self.voices = Voices(folder / "voices")
        self._ids: dict[str, int] = json.loads((folder / "symbols.json").read_text("utf-8"))
        self._graph = Graph(folder, device, kept=(DURATIONS,))
        self._in_step = in_step
        self._random = torch.Generator(device).manual_seed(0)

    def say(self, sentences: list[Said], style: NDArray[np.float32], pace: float = 1.0) -> list[tuple[int, Utterance]]:
        """Speaks a passage; returns its sentences one by one. Those that are too long or too short are left out."""
        tokens = [[self._ids[sound] for sound in sounds] for _, sounds in sentences]
        ids = [0, *tokens[0]]
        ends = [len(ids)]
        for more in tokens[1:]:
            ids += [self._ids[" "], *more]
            ends.append(len(ids))
        audio, durations = self._speak([*ids, 0], style, pace)
        if not np.isfinite(audio).all():
            return []
        steps = np.concatenate([[0], np.cumsum(durations)]) * STEP  # where each phoneme begins, in samples
        cuts = [0, *(_quietest(audio, steps[end - 1], steps[end + 1]) for end in ends[:-1]), -(-len(audio) // HOP)]
        said = _framed(audio, np.repeat([*ids, 0], durations))
        found = []
        for (number, _), first, last in zip(sentences, cuts[:-1], cuts[1:], strict=True):
            utterance = _trimmed(said, first, last)
            if utterance is not None and LEAST_FRAMES <= len(utterance.phonemes) <= MOST_FRAMES * 2:
                found.append((number, utterance))
        return found

    def _speak(
        self, ids: list[int], style: NDArray[np.float32], pace: float
    ) -> tuple[NDArray[np.float32], NDArray[Any]]:
        inputs = {
            "input_ids": torch.tensor([ids]),
            "style": torch.from_numpy(style)[None],
            "speed": torch.ones(1) * pace,
        }
        changes = {SOURCE: self._noisy, BINS: self._seen, ANGLES: self._turned}
        found = self._graph.run(inputs, {**changes, PHASE: _in_step} if self._in_step else changes)
        durations = found[DURATIONS].cpu().numpy().reshape(-1).astype(int)
        return found["waveform"].float().cpu().numpy().reshape(-1), durations

    def _noisy(self, source: Tensor) -> Tensor:
        """Adds noise to the harmonics `[1, samples, harmonics]`."""
        size = torch.where((source == 0).all(-1, keepdim=True), UNVOICED_NOISE, NOISE)
        return source + size * torch.randn(source.shape, generator=self._random, device=source.device)

    def _seen(self, bins: Tensor) -> Tensor:
        self._bins = bins  # [1, frames, bins, 2]
        return bins

    def _turned(self, _: Tensor) -> Tensor:
        real, imaginary = self._bins.transpose(1, 2).unbind(-1)
        return torch.atan2(imaginary, real)


def _in_step(sums: Tensor) -> Tensor:
    """Changes the sums `[1, n, harmonics]`, so that a period begins where a frame does."""
    cycles = sums[0, :, 0].double().cpu().numpy() * SPACING
    pitch = np.diff(cycles, prepend=0.0) * RATE / SPACING
    moved = aligned(cycles, pitch > VOICED, SPACING) - cycles
    harmonics = torch.arange(1, sums.shape[-1] + 1, device=sums.device)
    return sums + torch.from_numpy(moved / SPACING).to(sums)[None, :, None] * harmonics


def _quietest(audio: NDArray[np.float32], first: int, last: int) -> int:
    """Returns the frame boundary with the least sound around it, between two samples or next to them."""
    frames = np.arange(max(1, first // HOP), last // HOP + 2)
    loud = [float(np.square(audio[max(0, frame * HOP - 480) : frame * HOP + 480]).sum()) for frame in frames]
    return int(frames[int(np.argmin(loud))])


def _trimmed(said: Utterance, first: int, last: int) -> Utterance | None:
    """Returns these frames without the silence around them."""
    audio = said.audio[first * HOP : last * HOP]
    loud = np.flatnonzero(np.abs(audio) > 327)
    if not len(loud):
        return None
    begin, end = max(0, loud[0] - STEP) // HOP, (loud[-1] + 6 * STEP) // HOP + 1
    return Utterance(audio[begin * HOP : end * HOP], said.phonemes[first:last][begin:end])


def passages(path: Path, most: int) -> Iterator[list[Said]]:
    """Yields neighbouring sentences, up to `most` phonemes together."""
    some: list[Said] = []
    for number, line in enumerate(phonemes.read(path)):
        if some and sum(len(sounds) for _, sounds in some) + len(line.phonemes) > most:
            yield some
            some = []
        some.append((number, line.phonemes))
    if some:
        yield some


def _work(options: argparse.Namespace, worker: int, until: float) -> None:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.set_num_threads(1 if options.processes > 1 else torch.get_num_threads())
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kokoro = Kokoro(options.kokoro, device)
    made: list[tuple[int, Utterance, int]] = []
    shards, seconds, begun = 0, 0.0, time.time()
    for number, passage in enumerate(passages(options.spoken, options.passage)):
        if number % options.processes != worker or number < options.first:
            continue
        if (options.most is not None and number >= options.most) or time.time() > until:
            break
        voice = chosen(number, options.clones, options.turns)
        style = kokoro.voices.style(voice, sum(len(sounds) for _, sounds in passage))
        said_now = kokoro.say(passage, style, kokoro.voices.pace(voice))
        made += ((index, said, voice) for index, said in said_now)
        if sum(len(said.phonemes) for _, said, _ in made) >= SHARD_FRAMES:
            seconds += write_shard(options.shards / f"{worker:02}-{shards:05}.npz", made)
            made, shards = [], shards + 1
    seconds += write_shard(options.shards / f"{worker:02}-{shards:05}.npz", made)
    print(f"worker {worker}: {seconds / 3600:.2f} h in {time.time() - begun:.0f} s", flush=True)


def pack(network: Path, voices: Path, folder: Path) -> None:
    from hibari.tts import ASSETS

    convert(network, folder, torch.float16)
    shutil.copy(Path(ASSETS) / "vocab.json", folder / "symbols.json")
    (folder / "voices").mkdir(exist_ok=True)
    for path in voices.glob("[ab][fm]_*.bin"):
        shutil.copy(path, folder / "voices")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack")
    packing.add_argument("network", type=Path)
    packing.add_argument("voices", type=Path)
    packing.add_argument("kokoro", type=Path)
    speaking = commands.add_parser("speak")
    speaking.add_argument("spoken", type=Path)
    speaking.add_argument("kokoro", type=Path)
    speaking.add_argument("shards", type=Path)
    speaking.add_argument("--processes", type=int, default=3)
    speaking.add_argument("--seconds", type=float, default=float("inf"))
    speaking.add_argument("--passage", type=int, default=PASSAGE, help="phonemes spoken at once")
    speaking.add_argument("--clones", type=float, default=0.25, help="share of passages by mixed voices")
    speaking.add_argument("--first", type=int, default=0, help="passage to begin with")
    speaking.add_argument("--most", type=int, help="passage to end before")
    speaking.add_argument("--turns", type=_numbers, default=TURNS, help="numbers of presets, in the order they speak")
    options = parser.parse_args()
    if options.command == "pack":
        pack(options.network, options.voices, options.kokoro)
        return
    options.shards.mkdir(parents=True, exist_ok=True)
    until = time.time() + options.seconds
    if options.processes == 1:
        _work(options, 0, until)
        return
    context = multiprocessing.get_context("spawn")
    team = [context.Process(target=_work, args=(options, worker, until)) for worker in range(options.processes)]
    for member in team:
        member.start()
    for member in team:
        member.join()


if __name__ == "__main__":
    main()
