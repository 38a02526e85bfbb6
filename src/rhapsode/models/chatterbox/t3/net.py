"""T3: one table of embeddings for text and speech, layers of Llama or of GPT-2, and a head over speech tokens."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.models.chatterbox.t3.prompt import ID, PLACE, VOICE
from rhapsode.models.chatterbox.t3.sizes import HEAD_DIM, T3Sizes
from rhapsode.nn.decoder import DecoderConfig, DecoderStack
from rhapsode.nn.derived import Derived
from rhapsode.nn.kernels.linear import fused_linear
from rhapsode.nn.rope import Llama3Scaling, RopeConfig

EPS = 1e-5
ROPE = RopeConfig(HEAD_DIM, theta=500_000.0, llama3=Llama3Scaling(8.0, 1.0, 4.0, 8192))


def layers_of(sizes: T3Sizes) -> DecoderConfig:
    """Returns the shape of the layers."""
    heads = sizes.heads
    shape = (sizes.hidden, sizes.ffn, sizes.layers, heads, heads, HEAD_DIM)
    if not sizes.gpt2:
        return DecoderConfig(*shape, ROPE, eps=EPS)
    plain = DecoderConfig(*shape, None, norm="layer", eps=EPS, mlp="gelu_tanh")
    return replace(plain, attention_bias=True, output_bias=True, mlp_bias=True)


class Places(nn.Module):
    """A learned position, as the checkpoint names it."""

    def __init__(self, places: int, width: int) -> None:
        super().__init__()
        self.emb = nn.Embedding(places, width)


class T3Backbone(DecoderStack):
    """The layers, with GPT-2's table of positions where there is one."""

    def __init__(self, sizes: T3Sizes) -> None:
        super().__init__(layers_of(sizes))
        self.wpe = nn.Embedding(sizes.places, sizes.hidden) if sizes.gpt2 else None


class T3(Derived):
    """The language model. One range of ids has the text and, from `sizes.text_rows` on, speech tokens."""

    table: Tensor  # [text rows + speech rows, hidden], once derived
    places: Tensor  # [text places + speech places + 1, hidden], once derived; the last one is zero

    def __init__(self, sizes: T3Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.tfmr = T3Backbone(sizes)
        self.text_emb = nn.Embedding(sizes.text_rows, sizes.hidden)
        self.speech_emb = nn.Embedding(sizes.speech_rows, sizes.hidden)
        self.text_pos_emb = None if sizes.gpt2 else Places(sizes.text_places, sizes.hidden)
        self.speech_pos_emb = None if sizes.gpt2 else Places(sizes.speech_places, sizes.hidden)
        self.speech_head = nn.Linear(sizes.hidden, sizes.speech_rows, bias=sizes.gpt2)
        self.register_buffer("table", None, persistent=False)
        self.register_buffer("places", None, persistent=False)

    def derive(self) -> None:
        """Joins the tables, so that a prompt's rows are one lookup each."""
        if hasattr(self, "text_emb"):
            self.table = torch.cat((self.text_emb.weight, self.speech_emb.weight))
            nowhere = torch.zeros_like(self.table[:1])
            tables = [one.emb.weight for one in (self.text_pos_emb, self.speech_pos_emb) if one is not None]
            self.places = torch.cat((*tables, nowhere))
            del self.text_emb, self.speech_emb, self.text_pos_emb, self.speech_pos_emb

    def embed(self, content: Tensor, voices: Tensor) -> Tensor:
        """Embeds rows of prompts, `content [B, T, 4]` with `voices [B, voice rows, hidden]`: [B, T, hidden]."""
        row = content[..., VOICE]
        voice = voices.to(self.table.dtype).gather(1, row.clamp(min=0)[..., None].expand(-1, -1, voices.shape[2]))
        return torch.where((row >= 0)[..., None], voice, self._words(content) + self._where(content))

    def embed_untold(self, content: Tensor, told: Tensor) -> Tensor:
        """Returns the unconditional rows of prompts whose conditional ones are `told`: of text, only the positions."""
        is_text = (content[..., ID] < self.sizes.text_rows) & (content[..., VOICE] < 0)
        return torch.where(is_text[..., None], self._where(content), told)

    def embed_speech(self, tokens: Tensor, place: Tensor) -> Tensor:
        """Embeds speech tokens `[B]` at their places in the speech, [B]: [B, hidden]."""
        embedded = F.embedding(tokens + self.sizes.text_rows, self.table)
        if self.sizes.gpt2:
            return embedded
        most = self.sizes.speech_places - 1
        return embedded + F.embedding(place.clamp(max=most) + self.sizes.text_places, self.places)

    def at(self, x: Tensor, positions: Tensor) -> Tensor:
        """Adds GPT-2's positions, where there are any, to `x [B, T, hidden]`."""
        wpe = self.tfmr.wpe
        return x if wpe is None else x + wpe(positions.clamp(max=self.sizes.places - 1))

    def logits(self, hidden: Tensor) -> Tensor:
        """Returns the logits of the next speech token, `[B, speech rows]`."""
        return fused_linear(hidden, self.speech_head.weight, self.speech_head.bias)

    def _words(self, content: Tensor) -> Tensor:
        return F.embedding(content[..., ID].clamp(min=0), self.table)

    def _where(self, content: Tensor) -> Tensor:
        return F.embedding(content[..., PLACE], self.places)
