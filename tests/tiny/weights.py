"""Random tensors that are the same everywhere, and safetensors files to hold them.

Each tensor is drawn from its own Mersenne Twister, seeded by its name: neither the order of the tensors nor the NumPy
version changes a value (uniform draws of `RandomState` are frozen and use exact arithmetic only).
"""

import hashlib
import json
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

NEGATIVE = slice(1, None, 4)
"""Which channels of a Snake activation have a negative parameter. In published layers 1 to 29% have one."""


def uniform(name: str, shape: tuple[int, ...], low: float, high: float, seed: int) -> np.ndarray:
    """float32 tensor, uniform in [low, high), a function of its name and the seed only."""
    draws = np.random.RandomState(zlib.crc32(f"{seed}/{name}".encode())).random_sample(shape)
    return (low + (high - low) * draws).astype(np.float32)


def spread(name: str, shape: tuple[int, ...], std: float, seed: int) -> np.ndarray:
    """Zero-mean uniform tensor with this standard deviation."""
    return uniform(name, shape, -std * 3**0.5, std * 3**0.5, seed)


def snake(name: str, shape: tuple[int, ...], low: float, high: float, seed: int) -> np.ndarray:
    """Parameters of a Snake activation, some of them negative."""
    alpha = uniform(name, shape, low, high, seed)
    alpha.reshape(-1)[NEGATIVE] *= -1
    return alpha


def digest(tensors: Mapping[str, np.ndarray]) -> str:
    """Fingerprint of names, shapes and values: goldens carry it, so that a stale checkpoint cannot pass unseen."""
    sha = hashlib.sha256()
    for name in sorted(tensors):
        sha.update(f"{name}{tensors[name].shape}".encode())
        sha.update(np.ascontiguousarray(tensors[name]).tobytes())
    return sha.hexdigest()[:16]


def save(folder: Path, tensors: Mapping[str, np.ndarray], shards: int = 1) -> None:
    """Write `model.safetensors`, or `shards` files with their `model.safetensors.index.json`."""
    if shards == 1:
        save_file(dict(tensors), folder / "model.safetensors", metadata={"format": "pt"})
        return
    names = sorted(tensors)
    weight_map: dict[str, str] = {}
    for shard in range(shards):
        part = names[shard * len(names) // shards : (shard + 1) * len(names) // shards]
        file = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        save_file({name: tensors[name] for name in part}, folder / file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(part, file)
    index = {"metadata": {"total_size": sum(t.nbytes for t in tensors.values())}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1))
