"""A frame by the C kernels is the frame of PyTorch's operators."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rhapsode.nn.kernels.cpu.library import library
from rhapsode.types import Sampling
from tiny.talking import TalkerHarness
from unit.qwen3_tts.asked import CASES, Family, request

pytestmark = pytest.mark.skipif(library() is None, reason="there is no C compiler")


@torch.inference_mode()
@pytest.mark.parametrize(
    "sampling", [Sampling(0.0, 0, 1.0, 1.0), Sampling(1.1, 30, 1.0, 1.2), Sampling(0.9, 0, 0.7, 1.0)]
)
def test_packed_weights_draw_the_same_codes(checkpoint, sampling: Sampling) -> None:
    family = Family.open(checkpoint(CASES["cv_en_block"]["checkpoint"]), "auto")
    spoken = []
    for packed in (True, False):
        stage = TalkerHarness(family.talker, 4, 16, 256)
        if not packed:
            family.talker.net.model.program = family.talker.net.code_predictor.program = None
        assert (family.talker.net.code_predictor.program is not None) == packed
        prompts = [family.prompt(request(CASES[name])) for name in ("cv_en_block", "cv_en_stream")]
        stage.join([0, 2], prompts, sampling, [11, 12])
        spoken.append(np.stack([stage.step(0, 2).frames.numpy().copy() for _ in range(12)]))
    assert np.array_equal(*spoken)
    assert len(np.unique(spoken[0])) > 20
