"""From text to the ids of a variant's tokens."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Protocol

from rhapsode.checkpoints import gpt2_tokenizer
from rhapsode.checkpoints.tokenizer import added_tokens, allowing, listed_tokens, text_encoder
from rhapsode.errors import CheckpointError, InvalidRequest
from rhapsode.models.chatterbox.text.cangjie import FILE as CANGJIE
from rhapsode.models.chatterbox.text.cangjie import Cangjie
from rhapsode.models.chatterbox.text.languages import spelled
from rhapsode.models.chatterbox.text.punctuation import punctuated
from rhapsode.models.chatterbox.variants import Kind

ORIGINAL, MULTILINGUAL = "tokenizer.json", "grapheme_mtl_merged_expanded_v1.json"
SPACE = "[SPACE]"
SOUNDS = ("clear throat", "sigh", "shush", "cough", "groan", "sniff", "gasp", "chuckle", "laugh")
STYLES = (
    *("angry", "fear", "surprised", "whispering", "advertisement", "dramatic", "narration", "crying", "happy"),
    "sarcastic",
)
TAGS = tuple(f"[{name}]" for name in (*SOUNDS, *STYLES))
"""What Turbo and Nano know beside words. Every other token that a user writes is read as the characters it has."""


class EncodesText(Protocol):
    """Encodes one piece of a text."""

    def __call__(self, text: str, language: str | None = None, *, lenient: bool = False) -> list[int]: ...


def read(folder: Path, kind: Kind, rows: int) -> EncodesText:
    """Returns the encoder of a variant whose T3 knows `rows` tokens."""
    encoder: OriginalText | MultilingualText | TurboText
    if kind.is_turbo:
        encoder = TurboText(folder)
    elif kind is Kind.MULTILINGUAL:
        encoder = MultilingualText(folder)
    else:
        encoder = OriginalText(folder)
    highest = max(encoder.special.values(), default=0)
    if highest >= rows:
        raise CheckpointError(f"the tokenizer in {folder} has the id {highest}; the model knows {rows} tokens.")
    return encoder


class OriginalText:
    """English, with the tokenizer's token for a space."""

    def __init__(self, folder: Path, name: str = ORIGINAL) -> None:
        self.special = special_tokens(folder / name)
        self._encode = text_encoder(folder, {}, name)

    def __call__(self, text: str, language: str | None = None, *, lenient: bool = False) -> list[int]:
        return self.ids(punctuated(text))

    def ids(self, text: str) -> list[int]:
        """Returns the ids of a text in which spaces are tokens of their own."""
        first, *others = (self._encode(part) for part in text.split(" "))
        return [*first, *(one for part in others for one in (self.special[SPACE], *part))]


class MultilingualText:
    """23 languages: a token for the language, and for Chinese characters codes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._plain = OriginalText(folder, MULTILINGUAL)
        self.special = self._plain.special

    def __call__(self, text: str, language: str | None = None, *, lenient: bool = False) -> list[int]:
        text = spelled(punctuated(text, multilingual=True), language, lenient=lenient)
        ids = self._chinese(text) if language == "zh" else self._plain.ids(text)
        return ids if language is None else [self._id(f"[{language}]"), *ids]

    def _chinese(self, text: str) -> list[int]:
        ids, held = [], ""
        for character in text:
            tokens = self._cangjie.tokens(character)
            if not tokens:
                held += character
                continue
            ids += [*(self._plain.ids(held) if held else ()), *map(self._id, tokens)]
            held = ""
        return [*ids, *(self._plain.ids(held) if held else ())]

    @cached_property
    def _cangjie(self) -> Cangjie:
        if not (self._folder / CANGJIE).is_file():
            raise InvalidRequest(f"Chinese needs {CANGJIE}, which {self._folder} does not hold.", param="language")
        return Cangjie(self._folder / CANGJIE)

    def _id(self, token: str) -> int:
        if token not in self.special:
            raise InvalidRequest(f"the tokenizer of this checkpoint has no {token}.", param="language")
        return self.special[token]


class TurboText:
    """English with tags: GPT-2's tokenizer."""

    def __init__(self, folder: Path) -> None:
        self.special = {**gpt2_tokenizer.added(folder), **added_tokens(folder)}
        tags = {tag: self.special[tag] for tag in TAGS if tag in self.special}
        whole = (folder / ORIGINAL).is_file()
        self._encode = text_encoder(folder, tags) if whole else allowing(tags, gpt2_tokenizer.read(folder))

    def __call__(self, text: str, language: str | None = None, *, lenient: bool = False) -> list[int]:
        return self._encode(punctuated(text, turbo=True))


def special_tokens(path: Path) -> Mapping[str, int]:
    """Returns the added tokens of a tokenizer with spaces as tokens."""
    found = listed_tokens(path)
    if SPACE not in found:
        raise CheckpointError(f"{path} has no token {SPACE}.")
    return found
