"""The talker's networks: the slow model, one token per frame, and the fast model, the codes within a frame."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from rhapsode.device.sections import section
from rhapsode.models.fish_s2_pro.config import FishConfig, FishLayersConfig
from rhapsode.nn.decoder import DecoderConfig, DecoderStack
from rhapsode.nn.depth import DepthStack
from rhapsode.nn.derived import Derived
from rhapsode.nn.kernels.embedding import frame_sum
from rhapsode.nn.kernels.linear import fused_linear
from rhapsode.nn.linear import linear, normed_linear
from rhapsode.nn.rope import RopeConfig

NAMES = {
    "slow.": "text_model.model.",
    "fast.": "audio_decoder.",
    "codebooks.": "audio_decoder.codebook_embeddings.",
    "self_attn.qkv": "attention.wqkv",
    "self_attn.o_proj": "attention.wo",
    "self_attn.q_norm": "attention.q_norm",
    "self_attn.k_norm": "attention.k_norm",
    "mlp.gate_proj": "feed_forward.w1",
    "mlp.up_proj": "feed_forward.w3",
    "mlp.down_proj": "feed_forward.w2",
    "input_layernorm": "attention_norm",
    "post_attention_layernorm": "ffn_norm",
}
"""What the checkpoint calls the tensors of these networks."""


def layers(config: FishLayersConfig) -> DecoderConfig:
    """Returns the shape of a stack of layers."""
    return DecoderConfig(
        hidden=config.dim,
        ffn=config.intermediate_size,
        layers=config.n_layer,
        heads=config.n_head,
        kv_heads=config.n_local_heads,
        head_dim=config.head_dim,
        rope=RopeConfig(config.head_dim, config.rope_base, rounded=True),
        qk_norm=config.attention_qk_norm,
        eps=config.norm_eps,
        attention_bias=config.attention_qkv_bias,
        output_bias=config.attention_o_bias,
    )


class SlowModel(DecoderStack):
    def __init__(self, config: FishConfig) -> None:
        super().__init__(layers(config.slow))
        self.embeddings = nn.Embedding(config.slow.vocab_size, config.slow.dim)


class FastModel(DepthStack):
    """Generates the codes of a frame after its first code, one by one; all codebooks share a table and a head."""

    def __init__(self, config: FishConfig) -> None:
        super().__init__(layers(config.fast), max_tokens=config.books)
        fast, width = config.fast, config.slow.dim
        self.books = config.books
        self.embeddings = nn.Embedding(fast.vocab_size, fast.dim)
        self.output = nn.Linear(fast.dim, fast.vocab_size, bias=False)
        self.project_in = nn.Linear(width, fast.dim) if width != fast.dim else None

    @section("depth")
    def generate(self, hidden: Tensor, first: Tensor, choose: Callable[[int, Tensor], Tensor]) -> Tensor:
        """Returns the codes `[B, books]` of a frame that begins with `first [B]`, from the slow model's `hidden`.

        `choose(book, logits)` samples one code per row.
        """
        frame = self.begin(hidden.shape[0], hidden.dtype, hidden.device)
        start = hidden if self.project_in is None else linear(hidden, self.project_in)
        x = torch.stack((start, self.embeddings(first)), dim=1)
        codes = [first]
        for book in range(1, self.books):
            state = self.advance_unnormed(x, frame)[:, -1]
            codes.append(choose(book, normed_linear(state, self.norm, self.output.weight)))
            x = self.embeddings(codes[-1])[:, None]
        return torch.stack(codes, dim=1)


class FishNet(Derived):
    """The slow and the fast model, and the table that embeds codes for the slow model."""

    head: Tensor  # [codes + 1, hidden], once derived: the semantic tokens, then the end

    def __init__(self, config: FishConfig, semantic_start: int, end: int) -> None:
        super().__init__()
        self._codes, self._books = config.codes, config.books
        self._semantic_start, self._end = semantic_start, end
        self._scale = (1 + config.books) ** -0.5
        self.slow = SlowModel(config)
        self.fast = FastModel(config)
        self.codebooks = nn.Embedding(config.codes * config.books, config.slow.dim)
        self.register_buffer("head", None, persistent=False)

    def derive(self) -> None:
        """Copies the rows of the tied head that may be drawn: a step reads 4097 of 155,776."""
        self.head = torch.cat((self._semantic(), self.slow.embeddings.weight[self._end, None].detach()))

    def _semantic(self) -> Tensor:
        rows = self.slow.embeddings.weight.detach()[self._semantic_start :]
        return rows[: self._codes]

    def embed(self, columns: Tensor) -> Tensor:
        """Embeds prompt positions `[..., 1 + books]`, a token and codes each: [..., hidden]."""
        token = columns[..., 0]
        semantic = (token >= self._semantic_start) & (token < self._semantic_start + self._codes)
        first_row = torch.arange(0, self._codes * self._books, self._codes, device=columns.device)
        words = self.slow.embeddings(token)
        spoken = (words + self.codebooks(columns[..., 1:] + first_row).sum(-2)) * self._scale
        return torch.where(semantic[..., None], spoken, words)

    def embed_frame(self, frame: Tensor) -> Tensor:
        """Embeds generated frames `[B, books]` the same way, in one kernel: [B, hidden]."""
        tables = self.codebooks.weight.view(self._books, self._codes, -1)
        columns = torch.cat((frame[:, :1], frame), dim=1)  # the first code is the semantic token's
        return frame_sum(columns, self._semantic(), tables) * self._scale

    def logits(self, hidden: Tensor) -> Tensor:
        """Returns the logits of the semantic tokens and the end, [B, codes + 1]."""
        return fused_linear(hidden, self.head)
