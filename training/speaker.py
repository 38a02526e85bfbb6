"""Trains the speaker encoder: from a reference to the vector that the talker takes in place of a preset.

    python speaker.py SHARDS KOKORO MODEL --minutes 1

It learns two things from crops of the teacher's mixed voices: the style vector that a voice was made with, and to tell
voices apart. Its weights, in the folder `speaker` of MODEL, stay as they are when the talker is trained.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from export import write_tensors
from rhapsode.checkpoints.load import load
from rhapsode.models.qwen3_tts.speaker import SpeakerConfig, SpeakerEncoder
from rhapsode.nn.mel import log_mel
from schedule import Averages, Clock, Optimiser, described
from shape import talker_config
from speech import Speech, Spoken
from teacher import HOP
from voices import Voices

FOLDER = "speaker"
CROP = 32
"""Frames of a crop: 2.5 seconds."""
STYLE_AT = 100
"""The length of text whose style stands for a voice."""
SIZE = 0.5
"""Root mean square of a vector's numbers: about as large as what else the talker adds up."""


def build() -> SpeakerEncoder:
    return SpeakerEncoder(SpeakerConfig.from_dict(talker_config()["speaker_encoder_config"]))


class TrainedSpeaker:
    """The trained encoder."""

    def __init__(self, net: SpeakerEncoder) -> None:
        self._net = net

    @classmethod
    def read(cls, model: Path, device: torch.device) -> TrainedSpeaker | None:
        if not (model / FOLDER).is_dir():
            return None
        net = build()
        load(net, model / FOLDER, prefix="speaker_encoder.", device=device)
        return cls(net.to(device).eval())

    def embed(self, audio: Tensor) -> NDArray[np.float16]:
        return self._net.embed(audio).cpu().numpy().astype(np.float16)


class SpeakerTraining:
    def __init__(self, net: SpeakerEncoder, speech: Speech, voices: Voices, device: torch.device) -> None:
        self._net, self._speech, self._voices, self._device = net, speech, voices, device
        self._style = nn.Linear(net.config.enc_dim, 256).to(device)
        self._warmth = nn.Parameter(torch.tensor(2.3, device=device))  # logarithm of one over the temperature
        learned = [*net.parameters(), *self._style.parameters(), self._warmth]
        self.optimiser = Optimiser(learned, (0.9, 0.98), 0.01, clip=1.0)
        self.averages = Averages(("style", "apart", "hits"), device)
        self._by_voice: dict[int, list[Spoken]] = {}
        self._counted = 0

    def _group(self) -> list[int]:
        for one in self._speech.utterances[self._counted :]:
            self._by_voice.setdefault(one.voice, []).append(one)
        self._counted = len(self._speech.utterances)
        return list(self._by_voice)

    def step(self, batch: int, rng: np.random.Generator) -> None:
        """One step over two crops of each of `batch` voices."""
        known = self._group()
        chosen = rng.choice(known, min(batch, len(known)), replace=False).tolist()
        crops = torch.stack([self._crop(self._by_voice[voice], rng) for voice in chosen for _ in range(2)])
        vectors = self._net(log_mel(crops, self._net.mel))
        meant = np.stack([self._voices.style(voice, STYLE_AT) for voice in chosen for _ in range(2)])
        target = F.layer_norm(torch.from_numpy(meant).to(self._device), (256,))
        style = F.mse_loss(self._style(vectors), target)
        one, other = F.normalize(vectors, dim=-1).unflatten(0, (-1, 2)).unbind(1)
        alike = one @ other.T * self._warmth.exp()
        answers = torch.arange(len(chosen), device=self._device)
        apart = F.cross_entropy(alike, answers) + F.cross_entropy(alike.T, answers)
        scale = (vectors.square().mean(-1).sqrt() - SIZE).square().mean()
        self.optimiser.descend(style + 0.5 * apart + scale)
        self.averages.add(style, apart, (alike.argmax(-1) == answers).float().mean())

    def _crop(self, spoken: list[Spoken], rng: np.random.Generator) -> Tensor:
        one = spoken[rng.integers(len(spoken))]
        first = one.start + int(rng.integers(max(1, one.frames - CROP)))
        audio = self._speech.audio[first * HOP : (first + min(CROP, one.frames)) * HOP].float() / 32768
        return F.pad(audio, (0, CROP * HOP - len(audio))) * float(rng.uniform(0.4, 1.4))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shards", type=Path)
    parser.add_argument("kokoro", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--batch", type=int, default=48, help="voices")
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--hours", type=float, default=20.0, help="of speech to make room for")
    parser.add_argument("--report", type=int, default=200)
    options = parser.parse_args()
    torch.manual_seed(0)
    clock, rng = Clock(options.minutes), np.random.default_rng(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = build()
    if (options.model / FOLDER).is_dir():
        load(net, options.model / FOLDER, prefix="speaker_encoder.", device=device)
        net.requires_grad_(True)
    net.to(device).train()
    speech = Speech(options.shards, options.hours, device)
    speech.load(10_000)
    training = SpeakerTraining(net, speech, Voices(options.kokoro / "voices"), device)
    for step in clock.ticks():
        training.optimiser.set_rate(options.rate * min(1.0, (step + 1) / 100) * (1.02 - clock.share))
        training.step(options.batch, rng)
        if step % options.report == options.report - 1:
            print(f"{clock.elapsed:5.0f} s  step {step + 1}  {described(training.averages.read())}", flush=True)
            speech.load(100)
    write_tensors(options.model / FOLDER / "model.safetensors", {"speaker_encoder.": net})


if __name__ == "__main__":
    main()
