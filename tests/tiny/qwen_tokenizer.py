"""A byte-level BPE tokenizer of the Qwen2 kind: 256 bytes, a few merges, and the special tokens Qwen3-TTS uses.

Upstream slices the tokenised prompt at fixed offsets, so `assistant` and `user` must be one token each, as in Qwen2.
"""

import json
from collections.abc import Sequence
from pathlib import Path

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tts_pad>", "<tts_text_bos>", "<tts_text_eod>")
WORDS = ("assistant", "user", " the", "ing", "ello", "\n\n")  # merged left to right into one token each


def _byte_symbols() -> dict[int, str]:
    """GPT-2's printable stand-in for each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {byte: chr(256 + i) for i, byte in enumerate(rest)}


def write(folder: Path, words: Sequence[str] = WORDS, special: Sequence[str] = SPECIALS) -> dict[str, int]:
    """Write vocab.json, merges.txt and tokenizer_config.json; return the ids of the special tokens."""
    symbols = _byte_symbols()
    vocab = {symbols[byte]: byte for byte in range(256)}
    merges: list[str] = []
    for word in words:
        joined, *rest = (symbols[byte] for byte in word.encode())
        for symbol in rest:
            if f"{joined} {symbol}" not in merges:
                merges.append(f"{joined} {symbol}")
            joined += symbol
            vocab.setdefault(joined, len(vocab))
    specials = {token: len(vocab) + i for i, token in enumerate(special)}
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    config = {
        "tokenizer_class": "Qwen2Tokenizer",
        "added_tokens_decoder": {str(i): {"content": token} | flags for token, i in specials.items()},
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": None,
        "bos_token": None,
        "add_prefix_space": False,
        "model_max_length": 131072,
        "errors": "replace",
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": False,
    }
    (folder / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1))
    return specials
