"""What the Qwen3-TTS goldens cover: one line per case.

A case names a checkpoint recipe and what upstream is asked for. Its text is the first of a pool for which no choice of
upstream is a near-tie, so that rounding cannot change a code.
"""

from dataclasses import dataclass, field
from typing import Any

from tiny.qwen3_tts import Tiny

FRAMES = 24

SHORT = (  # used up well before the last frame
    "Hello there.",
    "It is raining.",
    "Good morning!",
    "Guten Tag, du.",
    "Close the door.",
    "Sing with us",
    "你好，世界",
    "One, two, 3.",
    "Where is it?",
    "No way, the end",
    "Ça va bien ?",
    "A cup of tea.",
)
LONG = (  # never used up within the frames
    "The quick brown fox is jumping over the lazy dog again.",
    "Rhapsodes were singing the old songs in every single town.",
    "She sells sea shells, and the shells she sells are shells.",
    "Nothing in the world is more boring than counting to ten.",
    "In the beginning there was nothing but the sound of rain.",
    "Please leave the key under the mat before you go to work.",
)
LETTERS = tuple("AIORWXYZ")  # one token: nothing but end-of-text is left to feed

CV = Tiny("custom_voice", "proj")
CV_SAME = Tiny("custom_voice", "same")
CV_SMALL = Tiny("custom_voice", "proj", size="0b6")
CV_ENDS = Tiny("custom_voice", "proj", eos_gain=1.4)
CV_HASTY = Tiny("custom_voice", "proj", eos_gain=5.0)
VD = Tiny("voice_design", "proj")
VD_SAME = Tiny("voice_design", "same")
BASE = Tiny("base", "proj")
BASE_SAME = Tiny("base", "same")


@dataclass(frozen=True)
class Case:
    """One utterance."""

    tiny: Tiny
    ask: dict[str, Any]  # language, speaker, instruct; for a clone ref_samples, ref_text, x_vector_only_mode
    non_streaming: bool
    pool: tuple[str, ...] = SHORT
    frames: int = FRAMES
    ends: bool = False  # must reach end-of-speech by itself, before `frames`
    hasty: bool = False  # end-of-speech must be the best logit before the least length, so that the rule holds it back
    codes_only: bool = False


@dataclass(frozen=True)
class Batch:
    """Several cases of one checkpoint in one upstream call."""

    rows: tuple[str, ...]
    tiny: Tiny = field(default=CV)


_CALM = "Speak calmly, the voice low."
_DEEP = "A deep old voice"
_X = {"ref_samples": 30_000, "ref_text": None, "x_vector_only_mode": True}
_ICL = {"ref_samples": 12_345, "ref_text": "the ref", "x_vector_only_mode": False}  # 7 frames: more text than reference
_ICL_LONG = {
    "ref_samples": 48_000,
    "ref_text": "some",
    "x_vector_only_mode": False,
}  # 25 frames: more reference than text

CASES: dict[str, Case] = {
    "cv_en_block": Case(CV, {"language": "English", "speaker": "aiden"}, True),
    "cv_auto_block": Case(CV, {"language": "Auto", "speaker": "Aiden"}, True, LONG),
    "cv_en_stream": Case(CV, {"language": "English", "speaker": "aiden"}, False),
    "cv_auto_stream": Case(CV, {"language": "Auto", "speaker": "aiden"}, False, LONG),
    "cv_instruct_en_block": Case(CV, {"language": "English", "speaker": "aiden", "instruct": _CALM}, True, LONG),
    "cv_instruct_auto_stream": Case(CV, {"language": "Auto", "speaker": "aiden", "instruct": _CALM}, False),
    "cv_dialect_auto_block": Case(CV, {"language": "Auto", "speaker": "eric"}, True),
    "cv_dialect_chinese_stream": Case(CV, {"language": "Chinese", "speaker": "dylan"}, False),
    "cv_dialect_en_block": Case(CV, {"language": "English", "speaker": "eric"}, True),
    "cv_same_instruct_auto_block": Case(CV_SAME, {"language": "Auto", "speaker": "aiden", "instruct": _CALM}, True),
    "cv_same_en_stream": Case(CV_SAME, {"language": "English", "speaker": "aiden"}, False),
    "cv_0b6_instruct_ignored": Case(
        CV_SMALL, {"language": "English", "speaker": "aiden", "instruct": _CALM}, True, codes_only=True
    ),
    "cv_ends_block": Case(CV_ENDS, {"language": "English", "speaker": "aiden"}, True, ends=True),
    "cv_ends_stream": Case(CV_ENDS, {"language": "Auto", "speaker": "aiden"}, False, ends=True),
    "cv_ends_dialect_block": Case(CV_ENDS, {"language": "Auto", "speaker": "eric"}, True, LONG, ends=True),
    "cv_hasty_block": Case(CV_HASTY, {"language": "English", "speaker": "aiden"}, True, ends=True, hasty=True),
    "vd_en_block": Case(VD, {"language": "English", "instruct": _DEEP}, True),
    "vd_auto_stream": Case(VD, {"language": "Auto", "instruct": _DEEP}, False),
    "vd_plain_de_stream": Case(VD, {"language": "German", "instruct": ""}, False, LONG),
    "vd_same_auto_block": Case(VD_SAME, {"language": "Auto", "instruct": _DEEP}, True),
    "xvec_en_stream": Case(BASE, {"language": "English"} | _X, False),
    "xvec_auto_block": Case(BASE, {"language": "Auto"} | _X, True),
    "icl_en_stream": Case(BASE, {"language": "English"} | _ICL, False),
    "icl_auto_stream": Case(BASE, {"language": "Auto"} | _ICL_LONG, False),
    "icl_en_block": Case(BASE, {"language": "English"} | _ICL_LONG, True),
    "icl_auto_block": Case(BASE, {"language": "Auto"} | _ICL, True, LONG),
    "icl_same_auto_stream": Case(BASE_SAME, {"language": "Auto"} | _ICL, False),
    "xvec_one_token_stream": Case(BASE, {"language": "Auto"} | _X, False, LETTERS),
    "xvec_same_en_block": Case(BASE_SAME, {"language": "English"} | _X, True),
}

BATCHES: dict[str, Batch] = {
    "batch_cv_block": Batch(("cv_en_block", "cv_instruct_en_block", "cv_dialect_auto_block")),
    "batch_cv_stream": Batch(("cv_auto_stream", "cv_en_stream", "cv_instruct_auto_stream")),
    "batch_cv_ends_block": Batch(("cv_ends_block", "cv_ends_dialect_block"), CV_ENDS),
    "batch_vd_stream": Batch(("vd_auto_stream", "vd_plain_de_stream"), VD),
    "batch_base_stream": Batch(("icl_en_stream", "icl_auto_stream", "xvec_en_stream"), BASE),
    "batch_base_block": Batch(("icl_auto_block", "xvec_auto_block"), BASE),
}

# (sampling arguments of upstream's generate, for the talker and for the predictor)
SAMPLING: dict[str, dict[str, Any]] = {
    "defaults": {},
    "cool": {"temperature": 0.7, "top_k": 20, "top_p": 0.8, "repetition_penalty": 1.3},
    "nucleus_only": {"temperature": 1.3, "top_k": 0, "top_p": 0.5},
    "plain": {"temperature": 1.0, "top_k": 50, "top_p": 1.0, "repetition_penalty": 1.0},
    "one": {"top_k": 1, "repetition_penalty": 2.0},
    "tiny_nucleus": {"top_k": 50, "top_p": 0.01},
}
HISTORY_LENGTHS = (0, 1, 2, 7, 60)
