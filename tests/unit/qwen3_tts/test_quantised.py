"""A talker whose layers are 8 bits wide says nearly what it said before."""

import torch

from rhapsode.nn.quantised import Quantised
from unit.qwen3_tts.asked import CASES, Family, Stage, request

CASE = "cv_auto_stream"
FRAMES = 8
FIRST, OTHER = 0.1, 0.2
"""Error of logits over their spread. The second code's has that of the talker's hidden state in it, too."""


@torch.inference_mode()
def test_its_logits_stay_near_those_of_whole_weights(checkpoint) -> None:
    folder = checkpoint(CASES[CASE]["checkpoint"])
    stages = []
    for weights in ("auto", "fp8"):
        family = Family.open(folder, weights)
        stages.append(Stage(family.talker))
        stages[-1].join([0], [family.prompt(request(CASES[CASE]))])
    whole, narrow = stages
    compared = 0
    for frame in range(FRAMES):
        expected, found = whole.step(0).frames, narrow.step(0).frames
        assert apart(narrow.first_logits[-1], whole.first_logits[-1]) < FIRST
        if expected[0, 0] == found[0, 0]:  # then the predictor began with the same code
            compared += 1
            second = frame * (expected.shape[1] - 1)
            assert apart(narrow.other_logits[second], whole.other_logits[second]) < OTHER
        narrow.state.previous[0], narrow.state.history[0] = whole.state.previous[0], whole.state.history[0]
    assert compared >= FRAMES // 2


def test_only_layers_are_quantised(checkpoint) -> None:
    net = Family.open(checkpoint(CASES[CASE]["checkpoint"]), "fp8").talker.net
    quantised = {name for name, part in net.named_modules() if isinstance(part, Quantised)}
    layers = len(net.model.layers) + len(net.code_predictor.model.layers)
    assert len(quantised) == 4 * layers
    assert all(".layers." in name for name in quantised)


def apart(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found - wanted).square().mean().sqrt() / wanted.std())
