"""Encodes text with the checkpoint's Qwen2 tokenizer and the special tokens that upstream adds to it."""

from __future__ import annotations

import re
from pathlib import Path

from rhapsode.checkpoints import qwen2_tokenizer
from rhapsode.checkpoints.folder import read_json
from rhapsode.errors import CheckpointError
from rhapsode.models.cosyvoice3.config import QWEN
from rhapsode.models.cosyvoice3.special_tokens import CONTROL, END_OF_PROMPT, SPECIAL_TOKENS


class CosyTokenizer:
    """Encodes text of users: tags such as `[breath]` are tokens, control tokens are plain characters."""

    def __init__(self, folder: Path, vocabulary: int) -> None:
        """`vocabulary` is how many ids the model knows."""
        home = folder / QWEN if _has_tokenizer(folder / QWEN) else folder
        self._encode = qwen2_tokenizer.read(home)
        self._special = special_ids(home)
        last = max(self._special.values())
        if last >= vocabulary:
            raise CheckpointError(
                f"the tokenizer in {home} has {last + 1} tokens with the special ones; the model knows {vocabulary}."
            )
        self._tags = re.compile("(" + "|".join(re.escape(tag) for tag in SPECIAL_TOKENS if tag not in CONTROL) + ")")

    @property
    def end_of_prompt(self) -> int:
        return self._special[END_OF_PROMPT]

    def __call__(self, text: str) -> list[int]:
        ids: list[int] = []
        for i, piece in enumerate(self._tags.split(text)):
            if i % 2:
                ids.append(self._special[piece])
            elif piece:
                ids += self._encode(piece)
        return ids


def special_ids(folder: Path) -> dict[str, int]:
    """Returns the ids of the special tokens: those in the files keep theirs, the others follow in upstream's order."""
    settings = folder / "tokenizer_config.json"
    listed = read_json(settings).get("added_tokens_decoder") if settings.is_file() else None
    known = {str(one.get("content")): int(number) for number, one in (listed or {}).items()}
    following = max([_words(folder) - 1, *known.values()]) + 1
    for token in SPECIAL_TOKENS:
        if token not in known:
            known[token] = following
            following += 1
    return {token: known[token] for token in SPECIAL_TOKENS}


def _has_tokenizer(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("tokenizer.json", "vocab.json"))


def _words(folder: Path) -> int:
    """Returns the size of the vocabulary without added tokens."""
    whole = folder / "tokenizer.json"
    vocabulary = read_json(whole).get("model", {}).get("vocab") if whole.is_file() else read_json(folder / "vocab.json")
    if not vocabulary:
        raise CheckpointError(f"the tokenizer in {folder} has no vocabulary.")
    return len(vocabulary)
