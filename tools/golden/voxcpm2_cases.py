"""What the VoxCPM2 goldens cover: one line per case.

A case's text is the first of its pool for which no quantizer value and no stop logit is near a tie, so that rounding
cannot change what follows.
"""

from dataclasses import dataclass, field
from typing import Any

from tiny.voxcpm2 import SAMPLE_RATE, Tiny

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
SPACED = tuple(f" {text} " for text in POOL)
LONG = ("The quick brown fox is jumping over the lazy dog, again and again.",)

ENDLESS = Tiny(stop_shift=10.0)
ENDS = Tiny(stop_shift=1.0)
SHORT_FACTORS = Tiny(stop_shift=10.0, max_positions=256, seed=1)
ODD = Tiny(stop_shift=10.0, patch=3, feat=5)
NO_RATE_BINS = Tiny(stop_shift=10.0, rate_bins=None)


@dataclass(frozen=True)
class Case:
    """One utterance: `ask` has upstream's own words; clips are numbers of samples of `reference_audio`.

    The prompt is of `prompt_seed` and the reference of seed 0, both at `rate`.
    """

    ask: dict[str, Any] = field(default_factory=dict)
    tiny: Tiny = ENDLESS
    pool: tuple[str, ...] = POOL
    before: str = ""
    reference: int = 0
    prompt: int = 0
    prompt_text: str = ""
    prompt_seed: int = 0
    rate: int = SAMPLE_RATE
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
    # Resampling to 16 kHz gives a fraction of a sample, which upstream rounds up: here that makes one more patch,
    "reference_48k": Case(reference=15_361, rate=48_000),
    # and here it moves all of the prompt, which ends with the last patch.
    "continuation_24k": Case(prompt=12_002, prompt_text="ref", rate=24_000),
    "two_clips": Case(reference=_CLIP, prompt=7_000, prompt_text="the ref.", prompt_seed=1),
    "two_clips_44k": Case(reference=15_003, prompt=9_002, prompt_text="ref", prompt_seed=2, rate=44_100),
    "zero_shot_spaced": Case(pool=SPACED),
    "continuation_spaced": Case(pool=SPACED, prompt=_CLIP, prompt_text="the ref."),
    "odd_patch": Case(tiny=ODD, reference=_CLIP, prompt=7_000, prompt_text="ref", prompt_seed=1),
    "no_rate_bins": Case(tiny=NO_RATE_BINS),
    "few_steps": Case({"inference_timesteps": 4, "cfg_value": 3.5}),
    "one_step": Case({"inference_timesteps": 1}),
    "many_steps": Case({"inference_timesteps": 50, "cfg_value": 1.0}, patches=12),
    "ends": Case({"min_len": 3}, tiny=ENDS, patches=60, ends=True),
    "ends_reference": Case({"min_len": 0}, tiny=ENDS, reference=_CLIP, patches=60, ends=True),
    "lora": Case(lora=True),
}
