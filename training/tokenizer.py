"""Trains the text tokenizer: byte-pair encoding like Qwen2's, with a small vocabulary, so that spelling stays visible.

    python tokenizer.py SPOKEN.tsv.gz MODEL

A token must last longer than a frame, or text that comes one token per frame falls behind the voice. With a thousand
pairs a token is about 2.6 letters, and a frame about 1.3.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

from tokenizers import Tokenizer, pre_tokenizers, trainers
from tokenizers.models import BPE

import phonemes
from rhapsode.checkpoints.qwen2_tokenizer import assemble

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tts_pad>", "<tts_text_bos>", "<tts_text_eod>")
TEXT_VOCABULARY = 2048
"""About half of it becomes pieces of words in letters, half words and pieces in phonemes."""
ROLES = ("assistant", "user")
"""Prompts are cut by counting tokens: each of these must be one."""


def learn(path: Path) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Returns the vocabulary and the merges, in order."""
    tokenizer = assemble(BPE())
    spare = sum(map(len, ROLES))
    trainer = trainers.BpeTrainer(
        vocab_size=TEXT_VOCABULARY - len(SPECIAL) - spare,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    rng = random.Random(0)
    tokenizer.train_from_iterator((phonemes.mixed(line, rng) for line in phonemes.read(path)), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    vocabulary: dict[str, int] = model["vocab"]
    merges = [tuple(pair) for pair in model["merges"]]
    for role in ROLES:
        pieces = tokenizer.encode(role).tokens
        while len(pieces) > 1:
            merges.append((pieces[0], pieces[1]))
            pieces = [pieces[0] + pieces[1], *pieces[2:]]
            vocabulary.setdefault(pieces[0], len(vocabulary))
    while len(vocabulary) < TEXT_VOCABULARY - len(SPECIAL):  # marks are numbered on from the last of it
        vocabulary[f"<|unused_{len(vocabulary)}|>"] = len(vocabulary)
    return vocabulary, merges


def read(folder: Path, dropout: float) -> Tokenizer:
    """Reads the tokenizer with BPE dropout: random merges are skipped, so that small pieces are trained too."""
    parts = str(folder / "vocab.json"), str(folder / "merges.txt")
    loose: Tokenizer = assemble(BPE.from_file(*parts, dropout=dropout))
    return loose


def write(folder: Path, vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False), encoding="utf-8")
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    plain = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    first = TEXT_VOCABULARY - len(SPECIAL)
    config = {
        "tokenizer_class": "Qwen2Tokenizer",
        "added_tokens_decoder": {str(first + i): {"content": mark, **plain} for i, mark in enumerate(SPECIAL)},
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
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("spoken", type=Path)
    parser.add_argument("model", type=Path)
    options = parser.parse_args()
    write(options.model, *learn(options.spoken))


if __name__ == "__main__":
    main()
