"""v2's prompts: a chat in Llama's layout, with scenes, and with references as turns or as lines of the scene."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rhapsode.checkpoints.tokenizer import Encode
from rhapsode.models.higgs.draft import Piece
from rhapsode.models.higgs.tokenizer import ControlTokens
from rhapsode.text.turns import SpeakerTag
from rhapsode.types import Clip, Reference, SpeechRequest

SYSTEM = "Generate audio following instruction."
SPEAKERS_SYSTEM = (
    "You are an AI assistant designed to convert text into speech.\n"
    "If the user's message includes a [SPEAKER*] tag, do not read out the tag and generate speech for the following "
    "text, using the specified voice.\n"
    "If no speaker tag is present, select a suitable voice on your own."
)
"""The system message for several speakers without references: the words that the model was trained with."""

_TAG = re.compile(r"\[SPEAKER(\d+)\]\s*")
SPEAKER = SpeakerTag(_TAG, re.compile(r"\[(S(P(E(A(K(E(R\d*)?)?)?)?)?)?)?$"), lambda speaker: f"[SPEAKER{speaker}] ")
_OPEN_LINE = re.compile(r"^[ \t]*(SPEAKER\d+:)[ \t]*$", re.MULTILINE)


class Control(NamedTuple):
    """A control token, by name."""

    name: str


BEGIN, START, STOP, END = map(Control, ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"))
SPEAK, SPOKEN = Control("<|audio_out_bos|>"), Control("<|audio_eos|>")
SCENE, SCENE_END = Control("<|scene_desc_start|>"), Control("<|scene_desc_end|>")
Item = str | Control | Clip


class HiggsChat:
    """Lays out messages and tokenises them. The text between two control tokens is tokenised as one piece."""

    def __init__(self, encode: Encode, tokens: ControlTokens, books: int, end: int) -> None:
        self._encode = encode
        self._ids = {control: tokens[control.name] for control in (BEGIN, START, STOP, END, SPEAK, SPOKEN)}
        # A tokenizer without these two reads them as characters, as upstream does.
        self._ids |= {control: tokens[control.name] for control in (SCENE, SCENE_END) if control.name in tokens}
        self._end_row = np.full((1, books), end, np.int64)

    def beginning(self, system: str, scene: Sequence[Item], references: Sequence[Reference]) -> list[Item]:
        """Returns the system message with its scene, and a pair of turns per reference."""
        described = ["\n\n", SCENE, "\n", *scene, "\n", SCENE_END] if scene else []
        items = [BEGIN, START, "system", STOP, f"\n\n{system.strip()}", *described, END]
        for words, reference in zip(transcripts(references), references, strict=True):
            items += [*self._message("user", words), START, "assistant", STOP, "\n\n", *speech(reference.audio), END]
        return items

    def turn(self, text: str) -> list[Item]:
        """Returns the user's message, and the beginning of the answer."""
        return [*self._message("user", text), START, "assistant", STOP, "\n\n", SPEAK]

    def pieces(self, items: Iterable[Item]) -> list[Piece]:
        """Tokenises a prompt."""
        pieces: list[Piece] = [[]]
        text = ""
        for item in (*items, None):
            if isinstance(item, str) or (isinstance(item, Control) and item not in self._ids):
                text += item if isinstance(item, str) else item.name
                continue
            ids = pieces[-1]
            assert isinstance(ids, list)
            ids += self._encode(text) if text else []
            text = ""
            if isinstance(item, Control):
                ids.append(self._ids[item])
            elif item is not None:
                pieces += [item, []]
        return pieces

    def continuing(self, text: str, is_first: bool) -> list[Piece]:
        """Returns the next turn. After speech, the end row comes first: it was drawn, but is not in the context yet."""
        if is_first:
            return self.pieces(self.turn(text))
        return [self._end_row, *self.pieces([SPOKEN, END, *self.turn(text)])]

    def _message(self, role: str, text: str) -> list[Item]:
        return [START, role, STOP, f"\n\n{text.strip()}", END]


def speech(clip: Clip) -> list[Item]:
    """Returns a recording between its two control tokens."""
    return [SPEAK, clip, SPOKEN]


def transcripts(references: Sequence[Reference]) -> list[str]:
    """Returns the transcripts of references. If there are several, each gets a speaker tag, unless it has one."""
    words = [reference.text or "" for reference in references]
    if len(words) == 1:
        return words
    return [text if _TAG.match(text.strip()) else f"{SPEAKER.write(i)}{text}" for i, text in enumerate(words)]


def open_lines(scene: str) -> int:
    """Returns how many speakers of a scene have a line without a description: these are described by references."""
    return len(_OPEN_LINE.findall(scene))


def scene_items(scene: str, clips: Sequence[Clip]) -> list[Item]:
    """Returns a scene with recordings in place of the missing descriptions."""
    pieces = _OPEN_LINE.split(scene.strip()) if clips else [scene.strip()]
    items: list[Item] = [pieces[0]]
    for speaker, rest, clip in zip(pieces[1::2], pieces[2::2], clips, strict=True):
        items += [f"{speaker} ", *speech(clip), rest]
    return [item for item in items if item != ""]


def has_speakers(text: str) -> bool:
    return _TAG.search(text) is not None


def without_speakers(text: str) -> str:
    """Returns a text without speakers' tags."""
    return _TAG.sub("", text)


def speakers_turns(text: str) -> list[str]:
    """Cuts a text before each speaker's tag."""
    starts = [0, *(found.start() for found in _TAG.finditer(text)), len(text)]
    cut = (text[start:stop].strip() for start, stop in pairwise(starts))
    return [turn for turn in cut if without_speakers(turn).strip()]


def system_of(request: SpeechRequest) -> str:
    """Returns the system message: the instructions, or a default."""
    if request.instructions and request.instructions.strip():
        return request.instructions
    alone = not request.voice.references
    return SPEAKERS_SYSTEM if alone and has_speakers(request.text) else SYSTEM


def scene_of(request: SpeechRequest, scene: str) -> str:
    """Returns the scene with a line for a described voice, and with lines for references if one has no transcript."""
    voice, lines = request.voice, []
    if voice.description and voice.description.strip():
        lines.append(f"SPEAKER0: {' '.join(voice.description.split())}")
    if not open_lines(scene) and any(reference.text is None for reference in voice.references):
        lines += [f"SPEAKER{i}:" for i in range(len(voice.references))]
    return "\n\n".join(part for part in (scene.strip(), "\n".join(lines)) if part)
