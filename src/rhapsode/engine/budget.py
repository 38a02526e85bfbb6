"""Computes how many slots and pages fit into the memory that a GPU has left beside the weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from rhapsode.config import DEFAULT_SLOTS, Deployment
from rhapsode.errors import NoMemory
from rhapsode.models.base import StreamWorker, Talker, traits_of

GRAPHS = 0.1
"""Part of a GPU's memory that is left for the buffers of captured launches and for other programs."""
USUAL_POSITIONS = 512
"""Prompt and frames of a usual request: 30 s of speech at 12.5 frames a second, and its text."""
USUAL_BLOCKS = 8
"""Pages of a usual request in a stage that takes pages block by block."""
MOST_SLOTS = 512


@dataclass(frozen=True)
class GpuMemory:
    """Bytes of one GPU."""

    total: int
    free: int
    """What this process may still allocate: what nobody has taken, and what it holds without use."""
    taken: int
    """Tensors of this process."""

    def room(self, share: float) -> int:
        """Returns how much a model may still take, if `share` of the GPU is for it and its weights."""
        graphs = int(GRAPHS * share * self.total)
        return min(self.free, int(share * self.total) - self.taken) - graphs


def fit(
    deployment: Deployment,
    workers: Sequence[tuple[Talker | StreamWorker, int]],
    device: torch.device,
    dtype: torch.dtype,
) -> Deployment:
    """Returns the deployment with every number set: as many `auto` slots as fit in memory, and no more pages than fit.

    `workers` are those of the device, each with the number of KV positions per frame. Requests that find no free page
    wait; nothing is allocated later on.
    """
    free = _room(device, deployment.memory.share)
    if free is None:
        return deployment.fixed(slots=DEFAULT_SLOTS, pages=None)
    limits, page_size = deployment.limits, deployment.memory.page_size
    slot_bytes = sum(_slot_bytes(worker) for worker, _ in workers)
    block_bytes = sum(USUAL_BLOCKS * _block_bytes(worker, dtype) for worker, _ in workers)
    whole_life = [(worker, per_frame) for worker, per_frame in workers if traits_of(worker).pages is None]
    page_bytes = page_size * sum(_position_bytes(worker, dtype) * per_frame for worker, per_frame in whole_life)
    per_slot = -(-limits.max_positions // page_size)
    usual = min(per_slot, -(-USUAL_POSITIONS // page_size))
    if not page_bytes:  # without a talker, half of the memory is for what launches allocate
        fitting = free // 2 // max(1, slot_bytes + block_bytes)
        return deployment.fixed(max(1, min(MOST_SLOTS, fitting)), None)
    fitting = free // (slot_bytes + block_bytes + usual * page_bytes)
    slots = deployment.fixed(max(1, min(MOST_SLOTS, fitting)), None).limits.slots
    room = (free - slots * slot_bytes - min(slots * block_bytes, free // 2)) // page_bytes
    if room < usual:
        raise _too_many(slots, deployment.memory.share)
    return deployment.fixed(slots, min(room, slots * per_slot))


def block_pages(
    worker: StreamWorker,
    others: Sequence[StreamWorker],
    slots: int,
    device: torch.device,
    dtype: torch.dtype,
    share: float | None = None,
) -> int:
    """Returns how many pages a stage that takes pages block by block gets.

    On a GPU: what is left once the states of the `others` are allocated, too. On a CPU: what is usual.
    """
    pages = traits_of(worker).pages
    assert pages is not None
    most = -(-pages.most_positions // pages.page_size)
    usual = max(slots * USUAL_BLOCKS, most)
    free = _room(device, share)
    if free is None:
        return usual
    room = (free - slots * sum(_slot_bytes(other) for other in others)) // _block_bytes(worker, dtype)
    if room < 1:
        raise _too_many(slots, share)
    return min(room, slots * most)


def _block_bytes(worker: object, dtype: torch.dtype) -> int:
    """Returns the bytes of one page of a stage that takes pages block by block; 0 for other stages."""
    pages = traits_of(worker).pages
    return pages.page_size * _position_bytes(worker, dtype) if pages is not None else 0


def _too_many(slots: int, share: float | None) -> NoMemory:
    place = "this GPU" if share is None else f"{share:.0%} of this GPU"
    more = "" if share is None else ", or memory.share to more"
    return NoMemory(f"{slots} requests at once do not fit {place}: set limits.max_concurrency to fewer{more}.")


def _room(device: torch.device, share: float | None) -> int | None:
    """Returns the bytes that may be used; None on a CPU, whose memory is not counted."""
    memory = _gpu_memory(device)
    return None if memory is None else memory.room(1.0 if share is None else share)


def _gpu_memory(device: torch.device) -> GpuMemory | None:
    if device.type != "cuda":
        return None
    free, total = torch.cuda.mem_get_info(device)
    taken = torch.cuda.memory_allocated(device)
    return GpuMemory(total, free + torch.cuda.memory_reserved(device) - taken, taken)


def _slot_bytes(worker: Talker | StreamWorker) -> int:
    """Returns the bytes that one more slot needs beside its pages."""
    few, more = worker.state(1), worker.state(2)
    return int(more.nbytes() - few.nbytes())


def _position_bytes(worker: object, dtype: torch.dtype) -> int:
    return sum(layout.bytes_per_position(dtype) for layout in traits_of(worker).kv)
