"""Trains the codec on the teacher's speech for some minutes; resumes where the last run stopped.

    python train_codec.py SHARDS CODEC --minutes 9

CODEC becomes a folder in the served layout (`speech_tokenizer` of a model), with the training state in it. The first
phase uses spectral losses only, the second adds discriminators. With `--learn decoder` encoder and codes stay fixed, so
that a talker trained on them still fits. With `--learn encoder` only the encoder changes: codes sound as before, but it
finds better ones, for speakers that it has not heard yet.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from codec import PHONEMES, SHAPE, TrainableCodec, read_config, restore, save
from discriminators import Discriminators, alike, convinced, told_apart
from losses import SpectralDistance
from rhapsode.checkpoints.load import load
from rhapsode.nn import kernels
from schedule import Averages, Captured, Clock, Optimiser, described
from speech import Speech

CONFIG = SHAPE / "speech_tokenizer"
SPECTRAL, PHASE, ADVERSARIAL, ALIKE = 15.0, 10.0, 3.0, 8.0
"""What the losses weigh."""
REVIVE_UNTIL = 0.5
"""Share of a run in which codes that die are given new places."""


class CodecTraining:
    def __init__(self, codec: TrainableCodec, speech: Speech, options: argparse.Namespace) -> None:
        device = speech.audio.device
        self.codec, self.speech, self.device = codec, speech, device
        self.judges = Discriminators().to(device, memory_format=torch.channels_last)
        self._distance = SpectralDistance().to(device)
        self._batch, self._frames, self._learn = options.batch, options.frames, options.learn
        self._phonemes = options.phonemes
        learning = [weight for weight in codec.parameters() if weight.requires_grad]
        self.optimiser = Optimiser(learning, (0.8, 0.98), 1e-3, clip=1000.0)
        self.judges_optimiser = Optimiser(list(self.judges.parameters()), (0.8, 0.98), 1e-3, clip=100.0)
        self.weight = torch.zeros((), device=device)  # of the discriminators, which are let in slowly
        names = ("spectral", "mel", "phase", "commitment", "phonemes", "gradient", "judges", "convinced", "alike")
        self.averages = Averages(names, device)

    def spectral_step(self) -> None:
        loss, noted, _, _ = self._reconstruct()
        size = self.optimiser.descend(loss)
        zero = torch.zeros_like(size)
        self.averages.add(*noted, size, zero, zero, zero)

    def adversarial_step(self) -> None:
        """Makes one adversarial step.

        Discriminators cost more than the codec: they get the second half of each crop only, which has left context.
        """
        loss, noted, made, meant = self._reconstruct()
        made, meant = (audio[..., audio.shape[-1] // 2 :].contiguous() for audio in (made, meant))
        with self._mixed():
            real, fake = self.judges(meant), self.judges(made.detach())
        judged = told_apart(real, fake)
        self.judges_optimiser.descend(judged)
        self.judges.requires_grad_(False)
        with self._mixed():
            fake = self.judges(made)  # against what they saw in the real one before this step: once less
        self.judges.requires_grad_(True)
        taken, close = convinced(fake), alike(real, fake)
        size = self.optimiser.descend(loss + self.weight * (ADVERSARIAL * taken + ALIKE * close))
        self.averages.add(*noted, size, judged, taken, close)

    def _reconstruct(self) -> tuple[Tensor, tuple[Tensor, ...], Tensor, Tensor]:
        """Returns the loss without discriminators, its terms, the output and the target."""
        meant, phonemes = self.speech.crops(self._batch, self._frames)
        with self._mixed():
            heard = self.codec(meant, learn=self._learn == "all")
        made = heard.audio.float()
        distance = self._distance(made[:, 0], meant[:, 0])
        guess = F.cross_entropy(heard.phonemes.reshape(-1, PHONEMES), phonemes.flatten())
        loss = SPECTRAL * distance.total + PHASE * distance.phase
        if self._learn != "decoder":
            loss = loss + heard.commitment + self._phonemes * guess
        return loss, (*distance, heard.commitment, guess), made, meant

    @torch.no_grad()
    def begin_codes(self) -> None:
        crops = [self.speech.crops(self._batch, self._frames)[0] for _ in range(40)]
        with self._mixed():
            features = [self.codec.encoder.features(crop).float() for crop in crops]
        self.codec.quantizer.begin(torch.cat(features).flatten(0, 1))

    def _mixed(self) -> torch.autocast:
        # What is cast is not kept: a graph must cast anew each time.
        gpu = self.device.type == "cuda"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=gpu, cache_enabled=False)


def rate_at(share: float, step: int) -> float:
    """Learning rate: warm-up of 300 steps, constant for half of the run, then decay to a twentieth."""
    return min(1.0, (step + 1) / 300) * min(1.0, 0.05 + 1.9 * (1 - share))


def train(training: CodecTraining, clock: Clock, options: argparse.Namespace) -> None:
    codec, speech = training.codec, training.speech
    step_of: dict[tuple[bool, bool], Callable[[], None]] = {}
    noted = time.monotonic()
    for step in clock.ticks():
        share = clock.share
        adversarial = share >= options.adversarial_after
        if step % 20 == 0:
            speech.load()
            training.optimiser.set_rate(options.rate * rate_at(share, step))
            training.judges_optimiser.set_rate(0.6 * options.rate * rate_at(share, 300))
            training.weight.fill_(min(1.0, max(0.0, (share - options.adversarial_after) / 0.04)))
            codec.quantizer.revives.fill_(share < REVIVE_UNTIL)
        if not codec.quantizer.learned and step >= options.begin_codes:
            training.begin_codes()
        kind = (adversarial, codec.quantizer.learned)
        if kind not in step_of:
            step_of.clear()  # a graph's memory goes with it
            chosen = training.adversarial_step if adversarial else training.spectral_step
            step_of[kind] = Captured(chosen, training.device)
        step_of[kind]()
        if step % options.report == options.report - 1:
            took, noted = (time.monotonic() - noted) / options.report * 1e3, time.monotonic()
            means = described(training.averages.read())
            print(f"{clock.elapsed:5.0f} s  step {step + 1}  {took:.1f} ms  {speech.hours:.1f} h  {means}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shards", type=Path)
    parser.add_argument("codec", type=Path)
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--adversarial-after", type=float, default=0.3, help="share of the run")
    parser.add_argument("--learn", choices=("all", "encoder", "decoder"), default="all")
    parser.add_argument("--phonemes", type=float, default=1.0, help="what the phonemes of the first code weigh")
    parser.add_argument("--decoder", type=Path, help="folder of a codec whose decoder a new one starts with")
    parser.add_argument(
        "--begin-codes", type=int, default=400, help="steps before codes are placed: features move a lot"
    )
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--frames", type=int, default=12)
    parser.add_argument("--rate", type=float, default=5e-4)
    parser.add_argument("--hours", type=float, default=120.0, help="of speech to make room for")
    parser.add_argument("--first-hours", type=float, default=0.5, help="of speech to wait for")
    parser.add_argument("--report", type=int, default=500, help="steps between two lines")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(0)
    clock = Clock(options.minutes)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    codec = TrainableCodec(read_config(CONFIG))
    beside = options.codec / "training.safetensors"
    resumed = (options.codec / "model.safetensors").is_file()
    if resumed:
        restore(codec, options.codec, device)
    elif options.decoder:
        load(codec.decoder, options.decoder, prefix="decoder.")
        codec.requires_grad_(True)
    for part, fixed in ((codec.encoder, "decoder"), (codec.phonemes, "decoder"), (codec.decoder, "encoder")):
        part.requires_grad_(options.learn != fixed)
    codec.to(device)
    speech = Speech(options.shards, options.hours, device)
    training = CodecTraining(codec, speech, options)
    helpers = nn.ModuleDict({"judges": training.judges, "phonemes": codec.phonemes})
    if beside.is_file():
        helpers.load_state_dict({name: value.float() for name, value in load_file(beside).items()})
    while speech.hours < min(options.first_hours, options.hours):
        speech.load(100) or time.sleep(0.5)
    print(f"{'resumed' if resumed else 'begun'} after {clock.elapsed:.0f} s with {speech.hours:.2f} h", flush=True)
    with kernels.use("off"):
        train(training, clock, options)
    save(codec, options.codec)
    shutil.copy(CONFIG / "config.json", options.codec)
    save_file({name: value.half().contiguous() for name, value in helpers.state_dict().items()}, beside)


if __name__ == "__main__":
    main()
