"""What the VoxCPM2 goldens cover: one line per case.

A case's text is the first of its pool for which no quantizer value and no stop logit is near a tie, so that rounding
cannot change what follows.
"""

from dataclasses import dataclass, field
from typing import Any

from tiny.voxcpm2 import Tiny

PATCHES = 14

POOL = (
    "Hello there.",
    "It is raining again.",
    "Good morning to you!",
    "Close the door, please.",
    "One, two, 3.",
    "Where is it?",
    "A cup of tea.",
    "No way, the end.",
)
CHINESE = ("你好世界，你好。", "世界你好！", "你好 你好世界")
LONG = ("The quick brown fox is jumping over the lazy dog, again and again.",)

ENDLESS = Tiny(stop_shift=10.0)
ENDS = Tiny(stop_shift=1.0)
SHORT_FACTORS = Tiny(stop_shift=10.0, max_positions=256, seed=1)


@dataclass(frozen=True)
class Case:
    """One utterance: `ask` has upstream's own words; clips are numbers of samples of `reference_audio`."""

    ask: dict[str, Any] = field(default_factory=dict)
    tiny: Tiny = ENDLESS
    pool: tuple[str, ...] = POOL
    before: str = ""
    reference: int = 0
    prompt: int = 0
    prompt_text: str = ""
    patches: int = PATCHES
    ends: bool = False
    lora: bool = False


_CLIP, _SHORT_CLIP = 20_000, 2_000  # 8 patches, the last one padded; and less than one

CASES: dict[str, Case] = {
    "zero_shot": Case(),
    "zero_shot_long": Case(pool=LONG),
    "zero_shot_chinese": Case(pool=CHINESE),
    "zero_shot_short_factors": Case(tiny=SHORT_FACTORS),
    "design": Case(before="(An old man, calm)"),
    "reference": Case(reference=_CLIP),
    "reference_control": Case(reference=_CLIP, before="(whispering)"),
    "continuation": Case(prompt=_CLIP, prompt_text="the ref."),
    "continuation_short": Case(prompt=_SHORT_CLIP, prompt_text="ref"),
    "both": Case(reference=_CLIP, prompt=_CLIP, prompt_text="the ref."),
    "both_short": Case(reference=_SHORT_CLIP, prompt=_SHORT_CLIP, prompt_text="ref"),
    "few_steps": Case({"inference_timesteps": 4, "cfg_value": 3.5}),
    "one_step": Case({"inference_timesteps": 1}),
    "many_steps": Case({"inference_timesteps": 50, "cfg_value": 1.0}, patches=12),
    "ends": Case({"min_len": 3}, tiny=ENDS, patches=60, ends=True),
    "ends_reference": Case({"min_len": 0}, tiny=ENDS, reference=_CLIP, patches=60, ends=True),
    "lora": Case(lora=True),
}
