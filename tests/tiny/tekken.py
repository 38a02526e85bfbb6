"""A tokenizer in Mistral's tekken layout: 256 bytes, a few longer tokens, and the marks of a Voxtral-TTS prompt."""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

SPECIALS = 40
NAMED = {
    0: "<unk>",
    1: "<s>",
    2: "</s>",
    24: "[AUDIO]",
    25: "[BEGIN_AUDIO]",
    35: "[REPEAT_AUDIO_TEXT]",
    36: "[NEXT_AUDIO_TEXT]",
}
LONGER = (b"th", b" t", b"the", b" the", b"in", b"ing", b"lo", b"llo", b"ello", b"on", b"er")
PATTERN = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
VOCAB = SPECIALS + 256 + len(LONGER)


def tekken(voice_tokens: Mapping[str, int]) -> dict[str, Any]:
    tokens = [*(bytes([byte]) for byte in range(256)), *LONGER, b"never used"]  # past the vocabulary's size
    return {
        "config": {
            "pattern": PATTERN,
            "num_vocab_tokens": len(tokens),
            "default_vocab_size": VOCAB,
            "default_num_special_tokens": SPECIALS,
            "version": "v7",
        },
        "vocab": [{"rank": i, "token_bytes": b64encode(token).decode()} for i, token in enumerate(tokens)],
        "special_tokens": [
            {"rank": i, "token_str": NAMED.get(i, f"<SPECIAL_{i}>"), "is_control": True} for i in range(SPECIALS)
        ],
        "audio": {"sampling_rate": 24_000, "frame_rate": 12.5, "voice_num_audio_tokens": dict(voice_tokens)},
    }
