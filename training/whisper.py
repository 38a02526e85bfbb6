"""Whisper in plain PyTorch, for many clips at once on a GPU; its weights come from a CTranslate2 folder.

    python whisper.py path/to/ctranslate2-whisper FOLDER

writes FOLDER in files of at most 45 MB, in 16 bits. Greedy, without timestamps.
"""

from __future__ import annotations

import argparse
import json
import shutil
import struct
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor

RATE, SECONDS, WINDOW, STEP, BANDS = 16_000, 30, 400, 160, 80
HEARD_RATE = 24_000
END = 50_257
PROMPT = (50_258, 50_259, 50_359, 50_363)
"""Start of a transcript, English, transcribe, no timestamps."""
PART_BYTES = 45_000_000


class Whisper:
    def __init__(self, folder: Path, device: torch.device) -> None:
        from tokenizers import Tokenizer

        parts = [load_file(path) for path in sorted(folder.glob("whisper-*.safetensors"))]
        kind = torch.float16 if device.type == "cuda" else torch.float32
        self._weights = {name: value.to(device, kind) for part in parts for name, value in part.items()}
        self._tokens = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._kind, self._device = kind, device
        self._layers = sum(
            name.startswith("encoder/") and name.endswith("/ffn/linear_0/weight") for name in self._weights
        )
        config = json.loads((folder / "config.json").read_text())
        vocabulary = len(self._weights["decoder/embeddings/weight"])
        self._banned = torch.zeros(2, vocabulary, dtype=torch.bool, device=device)  # first token, later ones
        self._banned[:, [token for token in config["suppress_ids"] if token >= 0]] = True
        self._banned[:, END + 1 :] = True
        self._banned[0, config["suppress_ids_begin"]] = True
        self._heads = self._weights["encoder/layer_norm/gamma"].numel() // 64
        self._bands = _mel_bands().to(device)
        self._window = torch.hann_window(WINDOW, device=device)

    @torch.no_grad()
    def transcribe(self, audio: Tensor, most: int = 120) -> list[str]:
        """What is heard in `audio [B, N]`, 24 kHz, padded with silence."""
        x = self._encode(self._mel(audio))
        names = [f"decoder/layer_{i}/attention/linear_1" for i in range(self._layers)]
        crossed = [self._split(self._linear(x, name), 2) for name in names]
        tokens = torch.tensor(PROMPT, device=self._device).repeat(len(audio), 1)
        past: list[tuple[Tensor, Tensor]] = []
        ended = torch.zeros(len(audio), dtype=torch.bool, device=self._device)
        new = tokens
        for step in range(most):
            logits = self._decode(new, tokens.shape[1] - new.shape[1], past, crossed)
            chosen = logits.float().masked_fill(self._banned[min(step, 1)], -torch.inf).argmax(-1)
            new = chosen.masked_fill(ended, END)[:, None]
            tokens = torch.cat([tokens, new], 1)
            ended |= new[:, 0] == END
            if step % 8 == 7 and bool(ended.all()):
                break
        said = tokens[:, len(PROMPT) :].tolist()
        return [self._tokens.decode([token for token in row if token < END]).strip() for row in said]

    def _mel(self, audio: Tensor) -> Tensor:
        """Log-mel spectrum `[B, 80, 3000]`."""
        whole = F.pad(audio.float(), (0, HEARD_RATE * SECONDS - audio.shape[1]))
        bins = torch.fft.rfft(whole)[:, : RATE * SECONDS // 2 + 1]
        audio = torch.fft.irfft(bins, n=RATE * SECONDS) * (RATE / HEARD_RATE)
        spectrum = torch.stft(audio, WINDOW, STEP, window=self._window, return_complex=True)[..., :-1]
        mel = (self._bands @ spectrum.abs().square()).clamp(min=1e-10).log10()
        mel = torch.maximum(mel, mel.amax((1, 2), keepdim=True) - 8.0)
        return (mel + 4.0) / 4.0

    def _encode(self, mel: Tensor) -> Tensor:
        weights, x = self._weights, mel.to(self._kind)
        for name, stride in (("conv1", 1), ("conv2", 2)):
            x = F.gelu(F.conv1d(x, weights[f"encoder/{name}/weight"], weights[f"encoder/{name}/bias"], stride, 1))
        x = x.transpose(1, 2) + weights["encoder/position_encodings/encodings"]
        for i in range(self._layers):
            name = f"encoder/layer_{i}"
            x = x + self._linear(_attend(*self._heads_of(x, name)), f"{name}/self_attention/linear_1")
            x = self._feed(x, name)
        return self._norm(x, "encoder")

    def _decode(
        self, new: Tensor, position: int, past: list[tuple[Tensor, Tensor]], crossed: list[tuple[Tensor, ...]]
    ) -> Tensor:
        """Logits after the last of the `new` tokens `[B, T]`; keys and values go into `past`."""
        weights, length = self._weights, new.shape[1]
        x = weights["decoder/embeddings/weight"][new]
        x = x + weights["decoder/position_encodings/encodings"][position : position + length]
        for i in range(self._layers):
            name = f"decoder/layer_{i}"
            query, key, value = self._heads_of(x, name)
            if i < len(past):
                key, value = torch.cat([past[i][0], key], 2), torch.cat([past[i][1], value], 2)
                past[i] = key, value
            else:
                past.append((key, value))
            x = x + self._linear(_attend(query, key, value, length > 1), f"{name}/self_attention/linear_1")
            (query,) = self._split(self._linear(self._norm(x, f"{name}/attention"), f"{name}/attention/linear_0"), 1)
            x = x + self._linear(_attend(query, *crossed[i]), f"{name}/attention/linear_2")
            x = self._feed(x, name)
        return self._norm(x[:, -1], "decoder") @ weights["decoder/embeddings/weight"].T

    def _heads_of(self, x: Tensor, name: str) -> tuple[Tensor, ...]:
        """Queries, keys and values of a layer's own attention."""
        return self._split(self._linear(self._norm(x, f"{name}/self_attention"), f"{name}/self_attention/linear_0"), 3)

    def _feed(self, x: Tensor, name: str) -> Tensor:
        inner = F.gelu(self._linear(self._norm(x, f"{name}/ffn"), f"{name}/ffn/linear_0"))
        return x + self._linear(inner, f"{name}/ffn/linear_1")

    def _norm(self, x: Tensor, name: str) -> Tensor:
        weights = self._weights
        return F.layer_norm(x, x.shape[-1:], weights[f"{name}/layer_norm/gamma"], weights[f"{name}/layer_norm/beta"])

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, self._weights[f"{name}/weight"], self._weights.get(f"{name}/bias"))

    def _split(self, x: Tensor, parts: int) -> tuple[Tensor, ...]:
        """`[B, T, parts * width]` to heads, each `[B, heads, T, 64]`."""
        return tuple(part.unflatten(-1, (self._heads, 64)).transpose(1, 2) for part in x.chunk(parts, -1))


def _attend(query: Tensor, key: Tensor, value: Tensor, causal: bool = False) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, is_causal=causal).transpose(1, 2).flatten(2)


def _mel_bands() -> Tensor:
    """Triangular filters `[80, 201]` on Slaney's scale: linear to 1 kHz, then logarithmic; each of equal area."""
    top = 15 + np.log(RATE / 2 / 1000) / (np.log(6.4) / 27)
    steps = np.linspace(0, top, BANDS + 2)
    edges = np.where(steps < 15, steps * 200 / 3, 1000 * np.exp(np.log(6.4) / 27 * (steps - 15)))
    frequency = np.linspace(0, RATE / 2, WINDOW // 2 + 1)
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    bands = np.minimum((frequency - low) / (middle - low), (high - frequency) / (high - middle)).clip(0)
    return torch.from_numpy(bands * 2 / (high - low)).float()


def read_ctranslate2(path: Path) -> dict[str, Tensor]:
    """Reads the tensors of `model.bin`, by name."""
    kinds = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}
    found = {}
    with path.open("rb") as file:

        def number(kind: str) -> int:
            return int(struct.unpack(kind, file.read(struct.calcsize(kind)))[0])

        def name() -> str:
            return file.read(number("H"))[:-1].decode()

        number("I"), name(), number("I")
        for _ in range(number("I")):
            key, rank = name(), number("B")
            shape = [number("I") for _ in range(rank)]
            kind, size = kinds[number("B")], number("I")
            found[key] = torch.from_numpy(np.frombuffer(file.read(size), kind).reshape(shape).copy())
    return {key: value for key, value in found.items() if value.dtype == torch.float16 and value.dim()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    parts: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, value in read_ctranslate2(options.source / "model.bin").items():
        if size + value.nbytes > PART_BYTES and parts[-1]:
            parts.append({})
            size = 0
        parts[-1][name], size = value, size + value.nbytes
    for number, part in enumerate(parts):
        save_file(part, options.folder / f"whisper-{number}.safetensors")
    for name in ("tokenizer.json", "config.json"):
        shutil.copy(options.source / name, options.folder)


if __name__ == "__main__":
    main()
