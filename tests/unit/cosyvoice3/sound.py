"""Flow and vocoder for tests: from the committed upstream tensors, or tiny ones made from seeds."""

import json
import lzma
from functools import cache
from pathlib import Path

import numpy as np
import torch

from rhapsode.checkpoints.weight_norm import fold_weight_norm
from rhapsode.checkpoints.weights import TensorsInMemory
from rhapsode.device.memory import SlotMemory
from rhapsode.device.reach import Window
from rhapsode.device.slots import SlotRow
from rhapsode.models.base import ModelSpec, Span, StageContext
from rhapsode.models.cosyvoice3.flow.net import FlowBlock, FlowNet
from rhapsode.models.cosyvoice3.flow.parts import flow_net
from rhapsode.models.cosyvoice3.flow.prompt import flow_prompt
from rhapsode.models.cosyvoice3.flow.settings import FlowSettings
from rhapsode.models.cosyvoice3.flow.worker import CosyFlow
from rhapsode.models.cosyvoice3.vocoder.parts import hift_net
from rhapsode.models.cosyvoice3.vocoder.settings import hift_settings
from rhapsode.nn.hift.net import HiftNet
from rhapsode.nn.pre_lookahead import LOOKBEHIND
from tiny import cosyvoice3_sound as tiny_sound
from tiny.cosyvoice3_sound import TinySound

GOLDEN = Path(__file__).parents[2] / "golden" / "cosyvoice3"
MOST_FRAMES = 160
# The sizes of the golden checkpoint; its tensors have fewer bits than upstream's, see the README there.
UPSTREAM = TinySound(
    tokens=75,
    mel=80,
    speaker=24,
    chunk_tokens=6,
    dim=48,
    depth=3,
    heads=3,
    head_dim=20,
    base=40,
    rates=(8, 5, 3),
    f0=28,
)
UPSTREAM_HIFT = {
    "upsample_kernel_sizes": [16, 11, 7],
    "resblock_kernel_sizes": [3, 7, 11],
    "resblock_dilation_sizes": [[1, 3, 5]] * 3,
    "source_resblock_kernel_sizes": [7, 7, 11],
    "source_resblock_dilation_sizes": [[1, 3, 5]] * 3,
}


def context(dtype: str = "float32") -> StageContext:
    return StageContext(ModelSpec("cosyvoice3", "", (), 24_000), None, {}, "cpu", dtype)


def golden(name: str) -> dict[str, np.ndarray]:
    return dict(np.load(GOLDEN / f"{name}.npz"))


def golden_tensors(name: str) -> dict[str, np.ndarray]:
    """Tensors by name: a line of JSON with the shapes, then the bytes of all numbers, most alike ones together."""
    header, _, planes = lzma.decompress((GOLDEN / f"{name}.xz").read_bytes()).partition(b"\n")
    shapes = {name: tuple(shape) for name, shape in json.loads(header).items()}
    values = np.frombuffer(planes, np.uint8).reshape(4, -1).T.copy().view(np.float32)[:, 0]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])
    return {name: x.reshape(shapes[name]) for name, x in zip(shapes, np.split(values, ends[:-1]), strict=True)}


def in_memory(tensors: dict[str, np.ndarray]) -> TensorsInMemory:
    found = {name: torch.from_numpy(np.ascontiguousarray(tensor)) for name, tensor in tensors.items()}
    return TensorsInMemory(GOLDEN / "tensors", fold_weight_norm(found))


@cache
def flow(dtype: str = "float64", upstream: bool = False) -> FlowNet:
    tiny = UPSTREAM if upstream else TinySound()
    tensors = golden_tensors("flow") if upstream else tiny_sound.flow_tensors(tiny)
    noise = None
    if upstream:  # of as many frames as a case has; whole chunks are computed
        noise = torch.nn.functional.pad(torch.from_numpy(golden("flow-noise")["noise"].astype(np.float32)), (0, 16)).T
    channels = {"pre_lookahead_layer": {"channels": 56}} if upstream else {}
    settings = FlowSettings.of(tiny_sound.flow_section(tiny) | channels)
    return flow_net(settings, context(dtype), lambda: in_memory(tensors), noise)


@cache
def hift(dtype: str = "float64", upstream: bool = False) -> HiftNet:
    tiny = UPSTREAM if upstream else TinySound()
    tensors = golden_tensors("hift") if upstream else tiny_sound.hift_tensors(tiny)
    settings = hift_settings(tiny_sound.hift_section(tiny) | (UPSTREAM_HIFT if upstream else {}))
    return hift_net(settings, context(dtype), lambda: in_memory(tensors))


def whole(net: FlowNet, voice: dict[str, np.ndarray], tokens: np.ndarray, *, masked: bool = True) -> torch.Tensor:
    """The mel frames of one pass over prompt and tokens, `[frames, mel]`, without those of the prompt."""
    prompt = len(voice["prompt_token"])
    every = torch.from_numpy(np.concatenate([voice["prompt_token"], tokens]).astype(np.int64))[None]
    rate, ahead = net.settings.token_mel_ratio, net.settings.pre_lookahead_len
    mel = net.noise.new_zeros(1, every.shape[1] * rate, net.settings.output_size)
    mel[0, : prompt * rate] = torch.from_numpy(voice["prompt_mel"])
    pad = torch.nn.functional.pad
    known = pad(torch.ones_like(every, dtype=torch.bool), (LOOKBEHIND, ahead))
    speaker = net.conditions.speaker(torch.from_numpy(voice["embedding"])[None])
    block = FlowBlock(pad(every, (LOOKBEHIND, ahead)), known, mel, speaker, torch.zeros(1, dtype=torch.int64))
    return net.one_pass(block, masked=masked)[0, prompt * rate :]


def voice_of(tiny: TinySound, tokens: int, seed: int = 0) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    return {
        "prompt_token": draw.integers(0, tiny.tokens, tokens),
        "prompt_mel": draw.normal(size=(2 * tokens, tiny.mel)).astype(np.float32),
        "embedding": draw.normal(size=tiny.speaker).astype(np.float32),
    }


class FlowStream:
    """One request of a flow worker, without an engine: chunk by chunk, as tokens come."""

    def __init__(self, net: FlowNet, voice: dict[str, np.ndarray], slot: int = 1) -> None:
        self.worker = CosyFlow(net, MOST_FRAMES)
        self.prompt = flow_prompt(net.settings, voice["prompt_token"], voice["prompt_mel"], voice["embedding"], 64)
        pages = self.worker.most_positions // self.worker.page_size
        dtype = net.dit.proj_out.weight.dtype
        self.memory = SlotMemory(
            2,
            self.worker.traits().kv,
            self.worker.state(2),
            torch.device("cpu"),
            dtype,
            page_size=self.worker.page_size,
            pages=pages,
            positions_per_slot=self.worker.most_positions,
        )
        self.memory.join([SlotRow(slot=slot, pages=range(pages, 0, -1))])
        self.slots = self.memory.slots([slot])
        for start in range(0, self.prompt.length, self.worker.page_size):
            span = Span(start, start + self.worker.page_size)
            self.worker.prefill([self.prompt], [span], self.memory.rows(self.slots), self.memory.state)
        if not self.prompt.length:
            self.worker.prefill([self.prompt], [Span(0, 0)], self.memory.rows(self.slots), self.memory.state)
        self.memory.table.place(np.array([slot]), np.array([self.prompt.length]), np.array([0]))
        self._consumed, self._block_at = 0, -self.prompt.offset

    def next(self, tokens: np.ndarray) -> torch.Tensor:
        """The mel frames of the next chunk; the tokens known so far are all there are, or enough for it."""
        size, reach = self.worker.reach.granularity, self.worker.reach
        skip = self._consumed - self._block_at
        count = int(np.clip(size - skip, 0, len(tokens) - self._consumed))
        index = self._block_at + np.arange(-LOOKBEHIND, size + reach.lookahead)
        present = (index >= 0) & (index < min(len(tokens), self._consumed + count + reach.lookahead))
        frames = np.where(present, tokens[index.clip(0, len(tokens) - 1)], 0)
        window = Window(torch.from_numpy(frames)[None, :, None], size, reach, torch.from_numpy(present)[None])
        made = self.worker.decode(window, self.memory.rows(self.slots), self.memory.state)[0]
        self._consumed += count
        self._block_at += size
        self.memory.table.advance(self.slots, torch.tensor([count]), self.worker.rate)
        return made[skip * self.worker.rate :][: count * self.worker.rate]

    def all(self, tokens: np.ndarray) -> torch.Tensor:
        made = []
        while self._consumed < len(tokens):
            made.append(self.next(tokens))
        return torch.cat(made)
