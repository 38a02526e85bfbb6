"""Chatterbox's flow for tests, from tiny tensors made from seeds, and the results of the reference implementation."""

from functools import cache
from pathlib import Path

import numpy as np
import torch

from rhapsode.checkpoints.weights import TensorsInMemory
from rhapsode.device.memory import SlotMemory
from rhapsode.device.reach import Window
from rhapsode.device.slots import SlotRow
from rhapsode.models.base import ModelSpec, StageContext
from rhapsode.models.chatterbox.flow.net import FlowSequences, S3FlowNet, noise_of
from rhapsode.models.chatterbox.flow.parts import s3_flow_net, s3_flow_worker
from rhapsode.models.chatterbox.flow.prompt import s3_flow_prompt
from rhapsode.nn.ragged import Ragged
from tiny import chatterbox_s3gen as tiny_s3gen

GOLDEN = Path(__file__).parents[2] / "golden" / "chatterbox"
TINY = {"original": tiny_s3gen.ORIGINAL, "turbo": tiny_s3gen.TURBO}
SEED = 7
Voice = dict[str, np.ndarray]


def context(dtype: str = "float32") -> StageContext:
    return StageContext(ModelSpec("chatterbox", "", (), 24_000), None, {}, "cpu", dtype)


@cache
def golden(name: str) -> dict[str, np.ndarray]:
    return dict(np.load(GOLDEN / f"{name}.npz"))


@cache
def tensors(variant: str) -> TensorsInMemory:
    made = tiny_s3gen.s3gen_tensors(TINY[variant])
    return TensorsInMemory(GOLDEN / "tensors", {name: torch.from_numpy(one) for name, one in made.items()})


@cache
def flow(variant: str = "original", dtype: str = "float64", steps: int | None = None) -> S3FlowNet:
    return s3_flow_net(context(dtype), lambda: tensors(variant), steps)


def noise(shape: tuple[int, ...], salt: int) -> np.ndarray:
    """What the reference implementation was given in place of random numbers: a hash of the position."""
    word = np.arange(np.prod(shape), dtype=np.uint64) * np.uint64(2654435761) + np.uint64(97531 * salt)
    word &= np.uint64(2**32 - 1)
    word ^= word >> np.uint64(16)
    word = word * np.uint64(2246822519) & np.uint64(2**32 - 1)
    word ^= word >> np.uint64(13)
    return ((word / 2**32 - 0.5) * 12**0.5).astype(np.float32).reshape(shape)


def voice_of(tokens: int, seed: int = 0) -> Voice:
    draw = np.random.default_rng(seed)
    return {
        "tokens": draw.integers(0, tiny_s3gen.SPEECH_CODES, tokens),
        "mel": draw.normal(size=(2 * tokens, tiny_s3gen.MEL)).astype(np.float32),
        "embedding": draw.normal(size=tiny_s3gen.SPEAKER).astype(np.float32),
    }


def tokens_of(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, tiny_s3gen.SPEECH_CODES, count)


def one_pass(net: S3FlowNet, voice: Voice, tokens: np.ndarray, unsolved: int = 0) -> torch.Tensor:
    """The mel frames of a pass over voice and tokens, `[frames, mel]`, without those of the voice."""
    given = torch.from_numpy(np.concatenate([voice["tokens"], tokens]))[None]
    most, start = given.shape[1], 2 * len(voice["tokens"])
    mel = net.like.new_zeros(1, 2 * most, tiny_s3gen.MEL)
    mel[0, :start] = torch.from_numpy(voice["mel"])
    ragged = Ragged.of(torch.tensor([most]), most, is_full=True)
    speaker = net.conditions.speaker(torch.from_numpy(voice["embedding"])[None])
    noise = noise_of(torch.tensor([SEED]), 2 * most, net.like)
    made = net(FlowSequences(given, ragged, mel, speaker, noise, torch.tensor([unsolved]) if unsolved else None))
    return made[0, start : 2 * (most - unsolved)]


class FlowRequests:
    """Requests of a flow worker, without an engine, in slots 1, 2 and so on: blocks by blocks, as tokens come."""

    def __init__(self, net: S3FlowNet, voices: list[Voice], most_tokens: int, block: int | None = None) -> None:
        self.worker = s3_flow_worker(net, most_tokens, block)
        count = len(voices)
        self.memory = SlotMemory(count + 1, (), self.worker.state(count + 1), torch.device("cpu"), net.like.dtype)
        slots = list(range(1, count + 1))
        self.memory.join([SlotRow(slot=slot, seed=SEED) for slot in slots])
        self.rows = self.memory.rows(slots)
        prompts = [
            s3_flow_prompt(net.sizes, *(voice[name] for name in ("tokens", "mel", "embedding"))) for voice in voices
        ]
        self.worker.open(prompts, self.rows, self.memory.state)
        self._at = 0

    def next(self, tokens: list[np.ndarray], blocks: int = 1) -> torch.Tensor:
        """The mel frames of the next blocks of all requests, `[B, frames, mel]`; `tokens`: all that have come."""
        reach = self.worker.reach
        due = blocks * reach.granularity
        place = self._at + np.arange(due + reach.lookahead)
        present = np.stack([place < len(each) for each in tokens])
        frames = np.stack([np.where(place < len(each), each[place.clip(max=len(each) - 1)], 0) for each in tokens])
        window = Window(torch.from_numpy(frames)[..., None], due, reach, torch.from_numpy(present))
        self._at += due
        return self.worker.decode(window, self.rows, self.memory.state)

    def all(self, tokens: list[np.ndarray], blocks: list[int] | None = None) -> list[torch.Tensor]:
        """The mel frames of each request; `blocks`: how many blocks each launch has."""
        made, schedule = [], iter(blocks or [])
        while self._at < max(map(len, tokens)):
            made.append(self.next(tokens, next(schedule, 1)))
        whole = torch.cat(made, dim=1)
        return [frames[: 2 * len(each)] for frames, each in zip(whole, tokens, strict=True)]
