"""v3's prompts: sections for the transcript and the rows of a reference, and for the text."""

from __future__ import annotations

from rhapsode.checkpoints.tokenizer import Encode
from rhapsode.models.higgs.draft import Piece
from rhapsode.models.higgs.tokenizer import ControlTokens
from rhapsode.types import Reference

TASK, TEXT, AUDIO = "<|tts|>", "<|text|>", "<|audio|>"
REFERENCE_TEXT, REFERENCE_AUDIO = "<|ref_text|>", "<|ref_audio|>"


class HiggsSections:
    """Lays out sections and tokenises them; each text is tokenised by itself."""

    def __init__(self, encode: Encode, tokens: ControlTokens) -> None:
        self._encode, self._tokens = encode, tokens
        self._task, self._text, self._audio = tokens[TASK], tokens[TEXT], tokens[AUDIO]

    def beginning(self, reference: Reference | None) -> list[Piece]:
        """Returns the sections before the text. An older tokenizer has no token for transcripts: they are left out."""
        if reference is None:
            return [[self._task]]
        words: list[int] = []
        if reference.text is not None and REFERENCE_TEXT in self._tokens:
            words = [self._tokens[REFERENCE_TEXT], *self._encode(reference.text)]
        return [[self._task, *words, self._tokens[REFERENCE_AUDIO]], reference.audio]

    def speech(self, text: str) -> list[Piece]:
        """Returns the text, and the token after which its audio begins."""
        return [[self._text, *self._encode(text), self._audio]]
