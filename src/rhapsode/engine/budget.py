"""How many requests fit: what a GPU has left once the weights are on it, as slots and pages."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rhapsode.config import DEFAULT_SLOTS, Deployment
from rhapsode.errors import ConfigError
from rhapsode.models.base import PrefillsPrompt, StreamWorker, Talker

GRAPHS = 0.1
"""Part of a GPU's memory that is left for the buffers of captured launches and for other programs."""
USUAL_POSITIONS = 512
"""Prompt and frames of a usual request: 30 s of speech at 12.5 frames a second, and its text."""
MOST_SLOTS = 512


def fit(
    deployment: Deployment,
    workers: Sequence[tuple[Talker | StreamWorker, int]],
    device: torch.device,
    dtype: torch.dtype,
) -> Deployment:
    """The deployment with every number known: `auto` slots as memory allows, pages no more than that.

    `workers` are those of the device, each with the positions of its keys and values that belong to a frame. Requests
    that find no page wait; nothing is allocated later on.
    """
    free = _free_bytes(device)
    if free is None:
        return deployment.fixed(slots=DEFAULT_SLOTS, pages=None)
    limits, page_size = deployment.limits, deployment.memory.page_size
    slot_bytes = sum(_slot_bytes(worker) for worker, _ in workers)
    page_bytes = page_size * sum(_position_bytes(worker, dtype) * per_frame for worker, per_frame in workers)
    per_slot = -(-limits.max_positions // page_size)
    usual = min(per_slot, -(-USUAL_POSITIONS // page_size))
    slots = deployment.fixed(max(1, min(MOST_SLOTS, free // (slot_bytes + usual * page_bytes))), None).limits.slots
    room = (free - slots * slot_bytes) // page_bytes
    if room < usual:
        raise ConfigError(f"{slots} requests at once do not fit this GPU: set limits.max_concurrency to fewer.")
    return deployment.fixed(slots, min(room, slots * per_slot))


def _free_bytes(device: torch.device) -> int | None:
    """What may be spent; None on a CPU, whose memory is not counted."""
    if device.type != "cuda":
        return None
    free, total = torch.cuda.mem_get_info(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return free + unused - int(GRAPHS * total)


def _slot_bytes(worker: Talker | StreamWorker) -> int:
    """What one more slot costs beside its pages."""
    few, more = worker.state(1), worker.state(2)
    return int(more.nbytes() - few.nbytes())


def _position_bytes(worker: Talker | StreamWorker, dtype: torch.dtype) -> int:
    layouts = worker.kv() if isinstance(worker, PrefillsPrompt) else ()
    return sum(layout.bytes_per_position(dtype) for layout in layouts)
