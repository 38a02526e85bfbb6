"""The code predictor: generates the codes of a frame after the first, one after the other."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from rhapsode.device.sections import section
from rhapsode.models.qwen3_tts.config import LayersConfig
from rhapsode.nn.decoder import DecoderConfig
from rhapsode.nn.depth import DepthStack
from rhapsode.nn.derived import Derived
from rhapsode.nn.kernels.cpu.predictor import PredictorProgram, PredictorWeights
from rhapsode.nn.kernels.sampling import NoiseCounters, Settings
from rhapsode.nn.linear import linear, normed_linear
from rhapsode.nn.norm import RMSNorm
from rhapsode.nn.packed import packed_stack
from rhapsode.nn.rope import RopeConfig

Choose = Callable[[int, Tensor, Tensor], tuple[Tensor, Tensor]]


def layers(config: LayersConfig) -> DecoderConfig:
    """Returns the shape of a stack of Qwen3 layers."""
    return DecoderConfig.of(
        config,
        config.head_dim,
        RopeConfig(config.head_dim, config.rope_theta),
        qk_norm=True,
        eps=config.rms_norm_eps,
        attention_bias=config.attention_bias,
        output_bias=config.attention_bias,
    )


class Tables(nn.Module):
    """One matrix per codebook, stacked; the checkpoint has a list."""

    def __init__(self, books: int, rows: int, columns: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(books, rows, columns))


class PredictorStack(DepthStack):
    def __init__(self, config: LayersConfig, books: int, width: int) -> None:
        super().__init__(layers(config), max_tokens=books + 1)
        self.codec_embedding = Tables(books, config.vocab_size, width)


class Predictor(Derived):
    """The code predictor. Its embeddings are as wide as the talker's; its layers may be narrower."""

    inputs: Tensor  # [books, codes, predictor width], once derived: the projected embeddings

    def __init__(self, config: LayersConfig, books: int, width: int) -> None:
        super().__init__()
        self.books = books
        self.model = PredictorStack(config, books, width)
        self.lm_head = Tables(books, config.vocab_size, config.hidden_size)
        narrower = config.hidden_size != width
        self.small_to_mtp_projection = nn.Linear(width, config.hidden_size) if narrower else nn.Identity()
        self.register_buffer("inputs", None, persistent=False)
        self.program: PredictorProgram | None = None

    def derive(self) -> None:
        """Projects every embedding once, so that a step looks its input up instead of multiplying."""
        self.inputs = self.small_to_mtp_projection(self.model.codec_embedding.weight.detach())

    def pack(self) -> None:
        """Packs the weights for the C kernels, where they support them."""
        stack, norm = packed_stack(self.model), self.model.norm
        if stack is not None and isinstance(norm, RMSNorm):
            angles = self.model.all_angles(torch.float32)
            cos, sin = (None, None) if angles is None else (angle[0, :, 0] for angle in angles)
            weights = PredictorWeights(norm.weight, self.lm_head.weight, self.inputs, cos, sin)
            self.program = PredictorProgram(stack, weights)

    @section("depth")
    def draw(self, hidden: Tensor, first: Tensor, settings: Settings, noise: NoiseCounters) -> Tensor:
        """Does the same as `forward` with the packed weights, draws included."""
        assert self.program is not None
        return self.program.predict(self.project(torch.stack((hidden, first), dim=1)), settings, noise)

    @section("depth")
    def forward(self, hidden: Tensor, first: Tensor, choose: Choose) -> Tensor:
        """Generates codes [B, books] from the talker's `hidden` and the embedding of the `first` code, both [B, width].

        `choose(book, logits, table)` samples one code per row, and looks it up in the table of the next inputs.
        """
        frame = self.model.begin(hidden.shape[0], hidden.dtype, hidden.device)
        x = self.project(torch.stack((hidden, first), dim=1))
        codes: list[Tensor] = []
        for book in range(self.books):
            state = self.model.advance_unnormed(x, frame)[:, -1]
            drawn, embedded = choose(book, self.logits(state, book), self.inputs[book])
            codes.append(drawn)
            x = embedded[:, None]
        return torch.stack(codes, dim=1)

    def project(self, x: Tensor) -> Tensor:
        projection = self.small_to_mtp_projection
        return linear(x, projection) if isinstance(projection, nn.Linear) else x

    def logits(self, state: Tensor, book: int) -> Tensor:
        """Returns the logits `[B, codes]` of one codebook, from the hidden states `[B, width]` after the last layer."""
        return normed_linear(state, self.model.norm, self.lm_head.weight[book])
