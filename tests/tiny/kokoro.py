"""Tiny random Kokoro checkpoints in the published layout: the values are made with NumPy from seeds."""

import json
from pathlib import Path

import numpy as np
import torch

from rhapsode.checkpoints.folder import read_json
from rhapsode.checkpoints.load import stored_tensors
from rhapsode.checkpoints.weight_norm import NAMES as NORM_NAMES
from rhapsode.models.kokoro import folder as published
from rhapsode.models.kokoro.config import KokoroConfig, NetSizes, read_config
from rhapsode.models.kokoro.net.albert import NAMES
from rhapsode.models.kokoro.net.decoder import Decoder
from rhapsode.models.kokoro.net.text import TextNet
from tiny import weights

VOICES = ("af_heart", "am_adam", "bf_emma", "ef_dora", "jf_alpha")
POSITIONS = 64
"""The longest sentence has two phonemes less."""
SAMPLES_PER_FRAME = 120
_PLAIN = ("noise_convs", "F0_proj", "N_proj")
"""Convolutions without weight norm."""


def config() -> dict:
    """The published configuration, with small sizes."""
    found = dict(read_json(Path(published.__file__).with_name("published.json")))
    found["istftnet"] = {
        **found["istftnet"],
        "upsample_rates": [4, 3],
        "upsample_kernel_sizes": [8, 5],
        "upsample_initial_channel": 8,
        "resblock_kernel_sizes": [3],
        "resblock_dilation_sizes": [[1, 3]],
    }
    found |= {"hidden_dim": 8, "style_dim": 4, "n_layer": 1, "max_dur": 6, "text_encoder_kernel_size": 3}
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 12, "num_hidden_layers": 2}
    found["plbert"] = {**found["plbert"], **sizes, "max_position_embeddings": POSITIONS, "embedding_size": 8}
    return found


def tensors(seed: int = 0) -> dict[str, np.ndarray]:
    """All tensors by part and name, without weight norm."""
    values = KokoroConfig(**{**vars(read_config(config())), "sizes": NetSizes(8, 4, 3, (3, 3))})
    with torch.device("meta"):
        nets = {"": TextNet(values), "decoder.": Decoder(values, 24_000)}
    found: dict[str, np.ndarray] = {}
    for prefix, net in nets.items():
        for name, tensor in stored_tensors(net):
            full = f"{prefix}{name}"
            for ours, theirs in NAMES.items():
                full = full.replace(ours, theirs)
            found[full] = _value(full, tuple(tensor.shape), seed)
    return found


def _value(name: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    if name == "predictor.F0_proj.bias":
        return np.full(shape, 180.0, np.float32)
    if ".alpha" in name or "LayerNorm.weight" in name or "layer_norm.weight" in name or name.endswith(".gamma"):
        return weights.uniform(name, shape, 0.8, 1.2, seed)
    fan_in = float(np.prod(shape[1:])) if len(shape) > 1 else 100.0
    gain = {"predictor.F0_proj.weight": 40.0, "decoder.generator.conv_post.weight": 0.02}.get(name, 1.0)
    return weights.spread(name, shape, gain / fan_in**0.5, seed)


def normed(name: str, weight: np.ndarray) -> dict[str, np.ndarray]:
    """Magnitude and direction of a convolution, under the names of weight norm's first implementation."""
    owner = name.removesuffix(".weight")
    axes = tuple(range(1, weight.ndim))
    magnitude = np.sqrt(np.square(weight, dtype=np.float64).sum(axes, keepdims=True)).astype(np.float32)
    return {f"{owner}{NORM_NAMES[0][0]}": magnitude, f"{owner}{NORM_NAMES[0][1]}": weight}


def stored(seed: int = 0) -> dict[str, np.ndarray]:
    """All tensors as the published file has them."""
    found: dict[str, np.ndarray] = {}
    for name, value in tensors(seed).items():
        is_normed = name.endswith(".weight") and value.ndim == 3 and not any(plain in name for plain in _PLAIN)
        found |= normed(name, value) if is_normed else {name: value}
    return found


def save(file: Path, named: dict[str, np.ndarray], wrapped: str = "module.") -> None:
    parts: dict[str, dict[str, torch.Tensor]] = {}
    for name, value in named.items():
        part, _, rest = name.partition(".")
        parts.setdefault(part, {})[f"{wrapped}{rest}"] = torch.from_numpy(value.copy())
    torch.save(parts, file)


def style_of(voice: str) -> np.ndarray:
    """The styles of a voice, `[rows, 1, 2 * style]`."""
    return weights.spread(f"voice.{voice}", (POSITIONS - 2, 1, 8), 0.5, 0)


def write(folder: Path, seed: int = 0) -> Path:
    (folder / "voices").mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config()), "utf-8")
    save(folder / "kokoro-v1_0.pth", stored(seed))
    for voice in VOICES:
        torch.save(torch.from_numpy(style_of(voice)), folder / "voices" / f"{voice}.pt")
    return folder
