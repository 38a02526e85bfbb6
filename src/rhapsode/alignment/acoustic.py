"""The acoustic model of the aligner: which letter is heard in every 20 ms of speech."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.alignment.model import FrameBlocks
from rhapsode.alignment.network import FRAME, OVERLAP, RATE, AcousticConfig, AcousticLinear, AcousticNetwork
from rhapsode.alignment.step import PackedStep, step_of
from rhapsode.checkpoints.folder import parse, read_config
from rhapsode.checkpoints.load import load
from rhapsode.checkpoints.uninitialised import on_meta

Samples = NDArray[np.float32]
LogProbs = NDArray[np.float32]

ENGLISH = Path(__file__).parent / "english"
"""The model that the package contains."""
BLOCK = 8
"""Frames computed at once. It is constant: products of one shape give the same bits however the audio is cut."""

FEW = 4
"""Fewer streams than this are computed one after the other: to replay a trace for each takes less time than to launch
small operators from Python."""
BATCH = 16
"""The most streams computed at once: the caches of a core hold no more."""


class AcousticModel:
    """A CTC model over letters, for many listeners at once."""

    rate = RATE
    frame_s = FRAME / RATE

    def __init__(self, network: AcousticNetwork) -> None:
        self._network = network.eval().requires_grad_(False)
        for layer in network.modules():
            if isinstance(layer, AcousticLinear):
                layer.prepare()
        self.symbols = network.config.symbols
        self.language = network.config.language
        self.blocks = FrameBlocks(BLOCK, network.config.look_ahead)
        self.late = network.config.late
        self._step = step_of(self._network, OVERLAP + BLOCK * FRAME)

    @classmethod
    def load(cls, folder: Path = ENGLISH, device: torch.device | str = "cpu") -> AcousticModel:
        """Reads a model's `config.json` and `model.safetensors`."""
        with on_meta():
            network = AcousticNetwork(parse(AcousticConfig, read_config(folder), str(folder / "config.json")))
        load(network, folder, device=device)
        return cls(network)

    def open(self) -> AcousticStream:
        return AcousticStream(self)

    def feed_many(self, heard: Sequence[tuple[AcousticStream, Samples]]) -> list[LogProbs]:
        """Feeds several different streams; each gets exactly the result that it gets alone."""
        for stream, samples in heard:
            stream.push(samples)
        streams = [stream for stream, _ in heard]
        while due := [stream for stream in streams if stream.has_block]:
            for first in range(0, len(due), BATCH):
                self._run(due[first : first + BATCH])
        return [stream.pop() for stream in streams]

    @torch.inference_mode()
    def _run(self, streams: Sequence[AcousticStream]) -> None:
        """Continues streams by one block each."""
        if self._step is not None and (len(streams) < FEW or isinstance(self._step, PackedStep)):
            for stream in streams:
                log_probs, tails = self._step(torch.from_numpy(stream.next_block()), stream.tails)
                stream.advance(log_probs.numpy(), tails)
            return
        samples = torch.from_numpy(np.stack([stream.next_block() for stream in streams]))
        tails = torch.cat([stream.tails for stream in streams], dim=1)
        log_probs, tails = self._network(self._network.features(samples.to(tails.device)), tails)
        for stream, found, after in zip(streams, log_probs.cpu().numpy(), tails.split(1, dim=1), strict=True):
            stream.advance(found, after)

    def fresh(self) -> Tensor:
        """Returns the state of a stream that has heard nothing."""
        return self._network.fresh(1)


class AcousticStream:
    """One listener's speech: push samples at 16 kHz, get log-probabilities `[frames, symbols]`."""

    def __init__(self, model: AcousticModel) -> None:
        self._model = model
        self.tails = model.fresh()
        self._waiting: Samples = np.zeros(OVERLAP, np.float32)
        self._found: list[LogProbs] = []
        self._early = model.blocks.look_ahead  # rows that are about time before the speech
        self._owed = 0.0  # frames of the audio so far that were not returned yet

    def feed(self, samples: Samples) -> LogProbs:
        """Takes any number of samples; returns the frames that are certain now."""
        return self._model.feed_many([(self, samples)])[0]

    def finish(self) -> LogProbs:
        """Ends the speech with silence; returns the remaining frames. The last one may be incomplete."""
        owed = int(np.ceil(self._owed - 1e-9))
        blocks = -(-(owed + self._early) // BLOCK) if owed else 0
        missing = blocks * BLOCK * FRAME - (len(self._waiting) - OVERLAP)
        return self.feed(np.zeros(max(0, missing), np.float32))[:owed]

    @property
    def has_block(self) -> bool:
        return len(self._waiting) >= OVERLAP + BLOCK * FRAME

    def push(self, samples: Samples) -> None:
        """Stores samples, without computing anything."""
        self._owed += len(samples) / FRAME
        self._waiting = np.concatenate([self._waiting, np.asarray(samples, np.float32)])

    def next_block(self) -> Samples:
        """Returns the samples of the next block, `[OVERLAP + BLOCK * FRAME]`."""
        return self._waiting[: OVERLAP + BLOCK * FRAME]

    def advance(self, log_probs: LogProbs, tails: Tensor) -> None:
        """Takes the log-probabilities of the next block, and the state after it."""
        self._found.append(log_probs[self._early :])
        self._early = max(0, self._early - BLOCK)
        self._waiting = self._waiting[BLOCK * FRAME :]
        self.tails = tails

    def pop(self) -> LogProbs:
        """Returns the frames that were found since the last call."""
        found, self._found = self._found, []
        out = np.concatenate(found) if found else np.zeros((0, len(self._model.symbols)), np.float32)
        self._owed -= len(out)
        return out
