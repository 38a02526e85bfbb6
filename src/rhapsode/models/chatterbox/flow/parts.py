"""The flow, built and filled with the tensors of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable

import torch

from rhapsode.checkpoints.weights import Tensors
from rhapsode.models.base import StageContext
from rhapsode.models.chatterbox.flow import estimator, times
from rhapsode.models.chatterbox.flow.conformer import S3FlowConditions
from rhapsode.models.chatterbox.flow.net import S3FlowNet
from rhapsode.models.chatterbox.flow.prefix import PrefixS3Flow
from rhapsode.models.chatterbox.flow.sizes import PREFIX, S3FlowSizes
from rhapsode.models.chatterbox.flow.whole import WholeS3Flow
from rhapsode.models.parts import fill

ESTIMATOR = "decoder.estimator."
STEPS, MEANFLOW_STEPS = 10, 2
"""Euler steps, of a flow with guidance and of a mean flow. Upstream's code has these numbers, its files do not."""


def s3_flow_worker(net: S3FlowNet, most_tokens: int, block: int | None = None) -> WholeS3Flow | PrefixS3Flow:
    """Returns the worker of the flow stage, for segments of at most `most_tokens`.

    Without `block`, each segment is one pass. With it, speech begins after the first `block` tokens, and each further
    block is a pass over the whole segment so far.
    """
    return WholeS3Flow(net, most_tokens) if block is None else PrefixS3Flow(net, most_tokens, block)


def s3_flow_net(context: StageContext, tensors: Callable[[], Tensors], steps: int | None = None) -> S3FlowNet:
    """Returns the flow on its device: the estimator in the context's dtype, the layers before it in full precision.

    `tensors` returns those of the file `s3gen`, of any kind; it is called once.
    """
    dtype: torch.dtype = getattr(torch, context.dtype)
    full = torch.promote_types(dtype, torch.float32)
    read = tensors()
    sizes = S3FlowSizes.of(read)

    def source() -> Tensors:
        return read

    conditions = fill(
        lambda: S3FlowConditions(sizes), context, source, prefix=PREFIX, ignore=(f"{ESTIMATOR}*",), dtype=full
    )
    embedding = fill(
        lambda: times.EstimatorTimes(sizes.estimator),
        context,
        source,
        prefix=PREFIX + ESTIMATOR,
        names=times.TIME_NAMES,
        ignore=times.TIME_IGNORE,
        dtype=full,
    )
    velocities = fill(
        lambda: estimator.Estimator(sizes.estimator),
        context,
        source,
        prefix=PREFIX + ESTIMATOR,
        names=estimator.NAMES,
        ignore=estimator.IGNORE,
        dtype=dtype,
    )
    usual = MEANFLOW_STEPS if sizes.estimator.meanflow else STEPS
    return S3FlowNet(sizes, conditions, velocities, embedding, steps or usual).eval()
