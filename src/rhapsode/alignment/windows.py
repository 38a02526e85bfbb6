"""Runs acoustic models that are not causal, published Wav2Vec2 checkpoints, over overlapping windows of the audio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rhapsode.alignment.model import FrameBlocks
from rhapsode.alignment.wav2vec2 import RATE, Wav2Vec2Letters
from rhapsode.checkpoints.folder import read_json
from rhapsode.errors import CheckpointError

Floats = NDArray[np.float32]

PAST = 100
"""Frames before a block that are computed again with it."""
GPU_BLOCKS = FrameBlocks(size=8, look_ahead=10)
CPU_BLOCKS = FrameBlocks(size=25, look_ahead=15)
"""Every block is computed together with a window of its past. Blocks are long on a CPU, where this is expensive, and
short on a GPU, where words can be known within half a second of their audio."""
UNKNOWN = -30.0
"""The log probability of a space where the vocabulary has none."""


class WindowedModel:
    """A CTC model over letters. It computes each block with a fixed amount of audio before and after it."""

    rate = RATE
    late = 0

    def __init__(self, network: Wav2Vec2Letters, letters: LetterColumns, language: str, is_normalised: bool) -> None:
        self._network = network
        self._letters = letters
        self._is_normalised = is_normalised
        self._device = network.lm_head.weight.device
        self.symbols, self.language = letters.symbols, language
        self.frame = int(np.prod(network.config.conv_stride))
        self.frame_s = self.frame / RATE
        self.margin = _margin(network.config.conv_kernel, network.config.conv_stride)
        self.blocks = CPU_BLOCKS if self._device.type == "cpu" else GPU_BLOCKS

    @classmethod
    def load(cls, folder: Path, language: str, device: torch.device | str = "cpu") -> WindowedModel:
        """Reads a folder in the layout of Hugging Face: `config.json`, weights, `vocab.json`, and more."""
        network = Wav2Vec2Letters.load(folder, device)
        extractor = _optional(folder, "preprocessor_config.json")
        if (rate := extractor.get("sampling_rate", RATE)) != RATE:
            raise CheckpointError(f"{folder} takes audio at {rate} Hz; known here: {RATE}.")
        delimiter = _optional(folder, "tokenizer_config.json").get("word_delimiter_token") or "|"
        letters = LetterColumns(read_json(folder / "vocab.json"), network.config.pad_token_id, delimiter)
        letters.check(folder, network.config.vocab_size)
        return cls(network, letters, language, is_normalised=bool(extractor.get("do_normalize", True)))

    def open(self) -> WindowedStream:
        return WindowedStream(self)

    def feed_many(self, heard: Sequence[tuple[WindowedStream, Floats]]) -> list[Floats]:
        """Feeds several streams. Each gets the result that it gets alone: exactly on a CPU, up to rounding on a GPU."""
        for stream, samples in heard:
            stream.push(samples)
        streams = [stream for stream, _ in heard]
        while due := [stream for stream in streams if stream.has_block]:
            windows = [stream.next_window() for stream in due]
            for stream, found in zip(due, self._frames(windows), strict=True):
                stream.advance(found)
        return [stream.pop() for stream in streams]

    @torch.inference_mode()
    def _frames(self, windows: list[Floats]) -> list[Floats]:
        """Returns the log probabilities `[frames, symbols]` of each window."""
        if self._device.type == "cpu":
            return [self._heard(window[None])[0] for window in windows]
        found: dict[int, Floats] = {}
        for length in {len(window) for window in windows}:
            rows = [row for row, window in enumerate(windows) if len(window) == length]
            found |= dict(zip(rows, self._heard(np.stack([windows[row] for row in rows])), strict=True))
        return [found[row] for row in range(len(windows))]

    def _heard(self, windows: Floats) -> Floats:
        if self._is_normalised:
            windows = windows - windows.mean(1, keepdims=True)
            windows = windows / np.sqrt(windows.var(1, keepdims=True) + 1e-7)
        logits = self._network(torch.from_numpy(windows.astype(np.float32)).to(self._device))
        return self._letters.pick(logits.float().log_softmax(-1).cpu().numpy())


class WindowedStream:
    """One listener's speech: push samples at 16 kHz, get log probabilities `[frames, symbols]`."""

    def __init__(self, model: WindowedModel) -> None:
        self._model = model
        self._samples: Floats = np.zeros(0, np.float32)
        self._first = 0  # the frame that the samples begin with
        self._heard = 0  # frames of the audio that windows have covered
        self._known = 0  # frames that were returned or are in `_found`
        self._found: list[Floats] = []
        self._owed = 0.0

    def feed(self, samples: Floats) -> Floats:
        """Takes any number of samples; returns the frames that are certain now."""
        return self._model.feed_many([(self, samples)])[0]

    def finish(self) -> Floats:
        """Ends the speech with silence; returns the remaining frames. The last one may be incomplete."""
        owed = int(np.ceil(self._owed - 1e-9))
        blocks = self._model.blocks
        ends = self._known + owed + blocks.look_ahead if owed else self._heard
        ends = -(-ends // blocks.size) * blocks.size
        missing = (ends - self._first) * self._model.frame - len(self._samples)
        return self.feed(np.zeros(max(0, missing), np.float32))[:owed]

    @property
    def has_block(self) -> bool:
        return len(self._samples) >= (self._heard + self._model.blocks.size - self._first) * self._model.frame

    def push(self, samples: Floats) -> None:
        """Stores samples, without computing anything."""
        self._owed += len(samples) / self._model.frame
        self._samples = np.concatenate((self._samples, np.asarray(samples, np.float32)))

    def next_window(self) -> Floats:
        """Returns the next block with the audio before it, and silence so that its last frame is complete."""
        stop = (self._heard + self._model.blocks.size - self._first) * self._model.frame
        return np.concatenate((self._samples[:stop], np.zeros(self._model.margin, np.float32)))

    def advance(self, log_probs: Floats) -> None:
        """Takes the log probabilities of the window's frames."""
        blocks, frame = self._model.blocks, self._model.frame
        self._heard += blocks.size
        known = max(0, self._heard - blocks.look_ahead)
        self._found.append(log_probs[self._known - self._first : known - self._first])
        self._known = known
        first = max(0, known - PAST)
        self._samples = self._samples[(first - self._first) * frame :]
        self._first = first

    def pop(self) -> Floats:
        """Returns the frames that were found since the last call."""
        found, self._found = self._found, []
        out = np.concatenate(found) if found else np.zeros((0, len(self._model.symbols)), np.float32)
        self._owed -= len(out)
        return out


class LetterColumns:
    """Which columns of a vocabulary are the blank, the space and the letters. Others, such as `<s>`, are dropped."""

    def __init__(self, vocabulary: Mapping[str, Any], blank: int, delimiter: str) -> None:
        self._space = vocabulary.get(delimiter)
        special = (blank, self._space)
        letters: dict[str, int] = {}
        for token, column in vocabulary.items():
            if len(token.lower()) == 1 and not token.isspace() and column not in special:
                letters.setdefault(token.lower(), column)
        self.symbols = ("", " ", *letters)
        self._columns = [blank, blank if self._space is None else self._space, *letters.values()]

    def check(self, folder: Path, size: int) -> None:
        """Raises if the vocabulary is not one of letters, or has more of them than the network."""
        if len(self.symbols) < 3:
            raise CheckpointError(f"{folder / 'vocab.json'} has no single letters.")
        if not all(type(column) is int and 0 <= column < size for column in self._columns):
            raise CheckpointError(f"{folder / 'vocab.json'} has numbers that are not below vocab_size ({size}).")

    def pick(self, log_probs: Floats) -> Floats:
        """Returns the columns of the symbols, of `[..., vocabulary]`."""
        picked: Floats = log_probs[..., self._columns]
        if self._space is None:
            picked[..., 1] = UNKNOWN
        return picked


def _margin(kernels: Sequence[int], strides: Sequence[int]) -> int:
    """Returns how many samples the receptive field of a frame extends past the start of the next frame."""
    length, step = 1, 1
    for kernel, stride in zip(kernels, strides, strict=True):
        length += (kernel - 1) * step
        step *= stride
    return max(0, length - step)


def _optional(folder: Path, name: str) -> dict[str, Any]:
    return read_json(folder / name) if (folder / name).is_file() else {}
