"""The flow stage: tokens to mel frames, one chunk of each request per launch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rhapsode.device.reach import Reach, Window
from rhapsode.device.replay import Replay
from rhapsode.device.slots import Rows
from rhapsode.device.state import State, buffer
from rhapsode.device.upload import upload
from rhapsode.models.base import BlockPages, Span, Traits
from rhapsode.models.cosyvoice3.flow.net import FlowBlock, FlowNet
from rhapsode.models.cosyvoice3.flow.prompt import FlowPrompt
from rhapsode.models.cosyvoice3.flow.settings import FlowSettings
from rhapsode.nn.dit.history import page_layouts
from rhapsode.nn.pre_lookahead import LOOKBEHIND

PREFILL_ROWS = (1, 2, 4)
"""Rows of captured prefill launches."""


class FlowState(State):
    """The voice of each slot. It does not change while the request is spoken; the history is in pages."""

    def __init__(self, slots: int, settings: FlowSettings, like: Tensor) -> None:
        device, tail = like.device, settings.chunk_tokens + settings.pre_lookahead_len
        self.first = buffer(slots, dtype=torch.int64, device=device)  # the first token that was not prefilled
        self.lacking = buffer(slots, dtype=torch.int64, device=device)  # tokens of the prompt from there on
        self.tokens = buffer(slots, LOOKBEHIND + tail, dtype=torch.int64, device=device)
        self.mel = buffer(slots, tail * settings.token_mel_ratio, settings.output_size, dtype=like.dtype, device=device)
        self.speaker = buffer(slots, settings.output_size, dtype=like.dtype, device=device)


class CosyFlow:
    """Streams a `FlowNet` under the chunk mask. Its frames equal those of one masked pass over prompt and tokens."""

    def __init__(self, net: FlowNet, most_frames: int) -> None:
        """`most_frames`: mel frames of one segment, prompt included."""
        settings = net.settings
        self._net, self._settings = net, settings
        self.rate = settings.token_mel_ratio
        self.reach = Reach(settings.pre_lookahead_len, LOOKBEHIND, settings.chunk_tokens)
        self.frame_shape = (settings.output_size,)
        self.frame_dtype = torch.promote_types(net.noise.dtype, torch.float32)
        self.page_size = settings.dit.static_chunk_size
        self.most_positions = min(most_frames, len(net.noise)) // self.page_size * self.page_size
        self._prefill: Replay | None = None

    def traits(self) -> Traits:
        pages = BlockPages(self.page_size, self.most_positions)
        return Traits(
            kv=page_layouts(self._settings.transformer), prefill=self.prefill, capture=self.capture, pages=pages
        )

    def state(self, slots: int) -> FlowState:
        return FlowState(slots, self._settings, self._net.noise)

    # --- the voice ---

    def prefill(self, prompts: Sequence[FlowPrompt], spans: Sequence[Span], rows: Rows, state: FlowState) -> None:
        """Runs chunks of the prompts that no later token changes; fills the slots of prompts that end here."""
        voices = np.stack([prompt.embedding for prompt in prompts])
        speakers = self._net.conditions.speaker(upload(voices, rows.slots.device))
        longest = max(stop - start for start, stop, _ in spans)
        for ahead in range(0, longest, self.page_size):
            here = [i for i, (start, stop, _) in enumerate(spans) if start + ahead < stop]
            self._run_chunks([(prompts[i], spans[i].start + ahead) for i in here], rows, speakers, here)
        for i, (prompt, span) in enumerate(zip(prompts, spans, strict=True)):
            if span.stop == prompt.length:
                self._fill_slot(prompt, rows.slots[i : i + 1], speakers[i : i + 1], state)

    def capture(self, rows: Rows, most_positions: int) -> None:
        """Captures the prefill of a chunk."""
        settings, device = self._settings, rows.slots.device
        width = self.reach.context + settings.chunk_tokens
        self._prefill = Replay(lambda *inputs: self._chunk(rows, *inputs))
        for count in reversed(PREFILL_ROWS):
            self._prefill.capture(
                rows.slots.repeat(count),
                torch.zeros(count, width, dtype=torch.int64, device=device),
                torch.ones(count, width, dtype=torch.bool, device=device),
                self._net.noise.new_zeros(count, self.page_size, settings.output_size),
                self._net.noise.new_zeros(count, settings.output_size),
                torch.zeros(count, dtype=torch.int64, device=device),
            )

    def _run_chunks(
        self, chunks: Sequence[tuple[FlowPrompt, int]], rows: Rows, speakers: Tensor, which: Sequence[int]
    ) -> None:
        """Runs one chunk of each prompt, from the given frame on; `which` has the rows of these prompts."""
        settings = self._settings
        captured = self._prefill is not None
        count = next((n for n in PREFILL_ROWS if n >= len(chunks)), len(chunks)) if captured else len(chunks)
        width = self.reach.context + settings.chunk_tokens
        tokens, known = np.zeros((count, width), np.int64), np.zeros((count, width), np.bool_)
        mel, start = np.zeros((count, self.page_size, settings.output_size), np.float32), np.zeros(count, np.int64)
        index = np.zeros(count, np.int64)
        index[: len(which)] = which
        for i, (prompt, frame) in enumerate(chunks):
            where = frame // self.rate - LOOKBEHIND + np.arange(width)
            known[i] = where >= 0
            tokens[i] = prompt.tokens[np.maximum(where, 0)]
            mel[i], start[i] = prompt.mel[frame : frame + self.page_size], frame
        chosen = upload(index, rows.slots.device)
        slots = rows.slots[chosen]
        slots[len(which) :] = rows.scratch
        given = (upload(x, rows.slots.device) for x in (tokens, known))
        frames = upload(mel, rows.slots.device).to(speakers.dtype)
        run = self._prefill or Replay(lambda *inputs: self._chunk(rows, *inputs))
        run(slots, *given, frames, speakers[chosen], upload(start, rows.slots.device))

    def _chunk(self, rows: Rows, slots: Tensor, *inputs: Tensor) -> None:
        self._net.block(FlowBlock(*inputs), Rows(slots, rows.table, rows.kv))

    def _fill_slot(self, prompt: FlowPrompt, slot: Tensor, speaker: Tensor, state: FlowState) -> None:
        first, rate = prompt.first, self.rate
        tokens = np.zeros((1, state.tokens.shape[1]), np.int64)
        mel = np.zeros((1, *state.mel.shape[1:]), np.float32)
        padded = np.concatenate([np.zeros(LOOKBEHIND, np.int64), prompt.tokens])
        tokens[0, : LOOKBEHIND + prompt.offset] = padded[first:]
        mel[0, : prompt.offset * rate] = prompt.mel[first * rate :]
        device = slot.device
        state.first[slot] = first
        state.lacking[slot] = prompt.offset
        state.tokens[slot] = upload(tokens, device)
        state.mel[slot] = upload(mel, device).to(state.mel.dtype)
        state.speaker[slot] = speaker

    # --- the speech ---

    def decode(self, window: Window, rows: Rows, state: FlowState) -> Tensor:
        """Makes the mel frames of the next chunks, `[B, due * rate, mel]`, in order."""
        assert window.present is not None
        chunk, width = self._settings.chunk_tokens, self.reach.context + self._settings.chunk_tokens
        starts = self._first_token(window.present, rows, state)
        made = []
        for ahead in range(0, window.due, chunk):
            tokens, present = (x[:, ahead : ahead + width] for x in (window.frames[..., 0], window.present))
            made.append(self._net.block(self._block(tokens, present, starts + ahead, rows.slots, state), rows))
        return torch.cat(made, dim=1)

    def _first_token(self, present: Tensor, rows: Rows, state: FlowState) -> Tensor:
        """Returns the position of the window's first token in prompt and speech, [B]; it may be one of the prompt."""
        absent = (present[:, LOOKBEHIND:].cumsum(1) == 0).sum(1)
        # Positions count the frames of the prefilled prompt and of the speech so far, but not the prompt's last tokens.
        return (rows.positions // self.rate + state.lacking[rows.slots] - absent).clamp(min=0)

    def _block(self, tokens: Tensor, present: Tensor, start: Tensor, slots: Tensor, state: FlowState) -> FlowBlock:
        """Returns one chunk of each row: the window's tokens, and before them the tokens that were not prefilled."""
        first, lacking = state.first[slots][:, None], state.lacking[slots][:, None]
        steps = torch.arange(-LOOKBEHIND, tokens.shape[1] - LOOKBEHIND, device=tokens.device)
        place = start[:, None] - first + steps  # among the tokens that were not prefilled
        of_prompt = ~present & (place < lacking) & (place >= -LOOKBEHIND) & (place + first >= 0)
        held = state.tokens[slots].gather(1, (place + LOOKBEHIND).clamp(0, state.tokens.shape[1] - 1))
        frames = (start[:, None] - first) * self.rate + torch.arange(self.page_size, device=tokens.device)
        inside = (frames >= 0) & (frames < lacking * self.rate)
        mel = state.mel[slots[:, None], frames.clamp(0, state.mel.shape[1] - 1)] * inside[..., None]
        return FlowBlock(
            torch.where(of_prompt, held, tokens), present | of_prompt, mel, state.speaker[slots], start * self.rate
        )
