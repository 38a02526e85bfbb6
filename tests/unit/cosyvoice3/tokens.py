"""A family whose talker says the tokens it is told, before CosyVoice3's flow and vocoder.

A request's text has the number of tokens of each of its parts, such as "7 12". Its instructions have the number of
tokens of its voice and, optionally, the number of tokens that are expected. The seed chooses all of them.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import torch

from rhapsode.device.kv import KVLayout
from rhapsode.device.state import State, buffer
from rhapsode.models.base import ModelSpec, Part, Prompt, StageSpec, Step, Traits
from rhapsode.models.cosyvoice3.flow.parts import flow_net, flow_worker
from rhapsode.models.cosyvoice3.flow.prompt import flow_prompt
from rhapsode.models.cosyvoice3.flow.settings import FlowSettings
from rhapsode.models.cosyvoice3.vocoder.parts import hift_net
from rhapsode.models.cosyvoice3.vocoder.settings import hift_settings
from rhapsode.models.cosyvoice3.vocoder.worker import CosyVocoder
from rhapsode.types import Capabilities, Sampling
from tiny import cosyvoice3_sound as tiny_sound
from tiny.cosyvoice3_sound import TinySound
from unit.cosyvoice3.sound import in_memory, voice_of

HERE = __name__
TINY = TinySound()
CONTEXT_S = 3.0
MOST = 64


def spoken_tokens(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng([seed, count]).integers(0, TINY.tokens, count)


def voice(request) -> dict[str, np.ndarray]:
    return voice_of(TINY, int(request.instructions.split()[0]), seed=5)


@dataclass
class TokenPrompt(Prompt):
    tokens: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    request: object = None


def prepare(context):
    def make(work):
        part = work if isinstance(work, Part) else Part(work, tuple(work.text.split()))
        first, *rest = part.texts
        tokens = spoken_tokens(int(first), part.request.seed)
        return TokenPrompt(
            len(tokens),
            length=1,
            tokens=tokens,
            request=part.request,
            following=(lambda: Part(part.request, tuple(rest))) if rest else None,
            new_segment=isinstance(work, Part),
        )

    return make


def voices(context):
    settings = FlowSettings.of(tiny_sound.flow_section(TINY))

    def make(prompt: TokenPrompt):
        found, (_, *expected) = voice(prompt.request), prompt.request.instructions.split()
        usual = int(expected[0]) if expected else None
        return flow_prompt(
            settings, found["prompt_token"], found["prompt_mel"], found["embedding"], prompt.max_frames, usual
        )

    return make


class TokenState(State):
    def __init__(self, slots: int) -> None:
        self.tokens = buffer(slots, MOST, dtype=torch.int64)
        self.count = buffer(slots, dtype=torch.int64)


class TokenTalker:
    frame_shape = (1,)
    frame_dtype = torch.int64
    defaults = Sampling(temperature=0.0, top_k=0, top_p=0.0, repetition_penalty=0.0)

    def __init__(self, context) -> None:
        pass

    def traits(self):
        return Traits(kv=(KVLayout(1, 1, 1),), prefill=self.prefill)

    def state(self, slots):
        return TokenState(slots)

    def prefill(self, prompts, spans, rows, state):
        for slot, prompt in zip(rows.slots, prompts, strict=True):
            state.tokens[slot, : len(prompt.tokens)] = torch.from_numpy(prompt.tokens)
            state.count[slot] = len(prompt.tokens)

    def step(self, rows, state):
        steps = rows.steps
        frames = state.tokens[rows.slots, steps.clamp(max=MOST - 1)]
        return Step(frames[:, None], steps >= 0, steps + 1 >= state.count[rows.slots])


def flow(context, masked: bool = True):
    settings, tensors = FlowSettings.of(tiny_sound.flow_section(TINY)), tiny_sound.flow_tensors(TINY)
    return flow_worker(flow_net(settings, context, lambda: in_memory(tensors)), CONTEXT_S, masked=masked)


def whole_flow(context):
    return flow(context, masked=False)


def vocoder(context):
    settings, tensors = hift_settings(tiny_sound.hift_section(TINY)), tiny_sound.hift_tensors(TINY)
    return CosyVocoder(hift_net(settings, context, lambda: in_memory(tensors)), still)


def still(rows, frames, values):
    """Noise that does not change, so that segments compare with requests of their own."""
    return torch.full((len(rows.slots), frames, values), 0.5)


TOKENS = ModelSpec(
    "tokens",
    "says the tokens it is told",
    (
        StageSpec("prepare", "call", f"{HERE}:prepare", next=("talk", "voices")),
        StageSpec("voices", "call", f"{HERE}:voices", next=("flow",)),
        StageSpec("talk", "frame", f"{HERE}:TokenTalker", stream_to=("flow",)),
        StageSpec("flow", "stream", f"{HERE}:flow", stream_to=("vocode",)),
        StageSpec("vocode", "stream", f"{HERE}:vocoder"),
    ),
    sample_rate=24_000,
    can=Capabilities(instructions=True),
)
UNMASKED = replace(
    TOKENS,
    pipeline=tuple(
        replace(stage, factory=f"{HERE}:whole_flow") if stage.name == "flow" else stage for stage in TOKENS.pipeline
    ),
)
