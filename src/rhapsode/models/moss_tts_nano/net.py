"""The talker's network: a global transformer over frames, and a local one over the codes of a frame."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.device.sections import section
from rhapsode.models.moss_tts_nano.config import MossConfig
from rhapsode.nn.decoder import DecoderStack
from rhapsode.nn.depth import DepthStack
from rhapsode.nn.derived import Derived
from rhapsode.nn.kernels.embedding import frame_sum
from rhapsode.nn.linear import normed_linear

Decide = Callable[[Tensor], Tensor]
"""Samples from the logits [B, 2] whether the speech goes on (0) or ends (1)."""
Choose = Callable[[int, Tensor], Tensor]
"""Samples one code per row from the logits of a codebook."""


class Global(DecoderStack):
    def __init__(self, config: MossConfig) -> None:
        super().__init__(config.layers.layers(config.layers.n_layer))
        self.wte = nn.Embedding(config.layers.vocab_size, config.layers.n_embd)


class MossTables(nn.Module):
    """One matrix per codebook, stacked; the checkpoint has a list."""

    def __init__(self, books: int, rows: int, columns: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(books, rows, columns))


class MossNet(Derived):
    """The global and the local transformer. Heads are tied: a codebook's embeddings are also its logits' weights."""

    codes: Tensor  # [books, codes + 1, hidden], once derived: embeddings, and a row of zeros for no code
    end_head: Tensor  # [2, hidden], once derived: the rows of the text head for going on and for ending

    def __init__(self, config: MossConfig) -> None:
        super().__init__()
        tokens = config.tokens
        self.config = config
        self.transformer = Global(config)
        # Inputs per frame: the global hidden state, the slot's token, and all codes but the last.
        self.local_transformer = DepthStack(
            config.layers.layers(tokens.local_transformer_layers), max_tokens=config.books + 1
        )
        self.audio_embeddings = MossTables(config.books, config.codes, config.layers.n_embd)
        self.register_buffer("codes", None, persistent=False)
        self.register_buffer("end_head", None, persistent=False)

    def derive(self) -> None:
        if hasattr(self, "audio_embeddings"):
            self.codes = F.pad(self.audio_embeddings.weight, (0, 0, 0, 1))
            del self.audio_embeddings
        tokens = self.config.tokens
        words = [tokens.audio_assistant_slot_token_id, tokens.audio_end_token_id]
        self.end_head = self.transformer.wte.weight[words].clone()

    def embed(self, rows: Tensor) -> Tensor:
        """Embeds prompt rows `[..., 1 + books]`, a text id and codes: [..., hidden]. The pad id means no code."""
        books, size, _ = self.codes.shape
        codes = rows[..., 1:].clamp(max=size - 1) + torch.arange(0, books * size, size, device=rows.device)
        return self.transformer.wte(rows[..., 0]) + F.embedding(codes, self.codes.flatten(0, 1)).sum(-2)

    def embed_frame(self, frame: Tensor) -> Tensor:
        """Embeds generated frames `[B, books]` as the next position: [B, hidden]."""
        slot = torch.full_like(frame[:, :1], self.config.tokens.audio_assistant_slot_token_id)
        return frame_sum(torch.cat((slot, frame), dim=1), self.transformer.wte.weight, self.codes)

    @section("depth")
    def frame(self, hidden: Tensor, decide: Decide, choose: Choose) -> tuple[Tensor, Tensor]:
        """Generates one frame from the global hidden state `[B, hidden]`.

        Returns whether the speech ends before this frame, [B], and its codes, [B, books].
        """
        local = self.local_transformer
        frame = local.begin(hidden.shape[0], hidden.dtype, hidden.device)
        slot = self.transformer.wte.weight[self.config.tokens.audio_assistant_slot_token_id].expand_as(hidden)
        states = local.advance_unnormed(torch.stack((hidden, slot), dim=1), frame)  # [B, 2, hidden]
        ends = decide(normed_linear(states[:, 0], local.norm, self.end_head)) == 1
        codes = [choose(0, self.logits(states[:, 1], 0))]
        for book in range(1, self.config.books):
            x = F.embedding(codes[-1], self.codes[book - 1])[:, None]
            codes.append(choose(book, self.logits(local.advance_unnormed(x, frame)[:, 0], book)))
        return ends, torch.stack(codes, dim=1)

    def logits(self, state: Tensor, book: int) -> Tensor:
        """Applies a codebook's head to the local transformer's `state [B, hidden]`, not normed yet: [B, codes]."""
        return normed_linear(state, self.local_transformer.norm, self.codes[book, :-1])
