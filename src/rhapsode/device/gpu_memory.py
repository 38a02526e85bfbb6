"""How much of the GPUs' memory this process has taken."""

from __future__ import annotations

import sys


def device_bytes() -> int | None:
    """Returns the bytes of all tensors on GPUs; `None` if no GPU is used."""
    torch = sys.modules.get("torch")  # a process that uses a GPU has imported it
    if torch is None or not torch.cuda.is_initialized():
        return None
    return sum(int(torch.cuda.memory_allocated(device)) for device in range(torch.cuda.device_count()))
