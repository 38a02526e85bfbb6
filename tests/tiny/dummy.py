"""Checkpoints of the dummy family, of any kind: no weights, only what they can do."""

import json
from pathlib import Path
from typing import Any

CLONING = {"clone": True, "embedding": True}
EMBEDDING_SIZE = 64


def write(folder: Path, can: dict[str, Any] | None = None) -> str:
    """Writes a checkpoint with these abilities besides those of the family; by default it clones."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"architectures": ["RhapsodeDummy"], "can": CLONING if can is None else can}
    if config["can"].get("embedding"):
        config["embedding_size"] = EMBEDDING_SIZE
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)
