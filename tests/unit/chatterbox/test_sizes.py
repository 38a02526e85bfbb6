"""The sizes of the acoustic half: those of published checkpoints, and how they are read from tensors."""

import pytest
import torch

from rhapsode.checkpoints.load import stored_tensors
from rhapsode.checkpoints.uninitialised import on_meta
from rhapsode.checkpoints.weights import TensorsInMemory
from rhapsode.errors import CheckpointError
from rhapsode.models.chatterbox.flow.conformer import S3FlowConditions
from rhapsode.models.chatterbox.flow.estimator import Estimator
from rhapsode.models.chatterbox.flow.sizes import ConformerSizes, EstimatorSizes, S3FlowSizes
from rhapsode.models.chatterbox.flow.times import EstimatorTimes
from rhapsode.models.chatterbox.reference.parts import SPEAKER, cam_plus_sizes
from rhapsode.models.chatterbox.reference.speech_tokenizer import SpeechTokenizer, SpeechTokenizerSizes
from rhapsode.models.chatterbox.shapes import TensorShapes
from rhapsode.models.chatterbox.vocoder_parts import s3_vocoder_settings
from rhapsode.nn.campplus import CamPlus, CamPlusSizes
from rhapsode.nn.hift.symmetric import SymmetricHift
from unit.chatterbox.s3gen import GOLDEN, tensors

CONFORMER = ConformerSizes(hidden=512, ffn=2048, heads=8, layers=6, up_layers=4, lookahead=3)
ESTIMATOR = EstimatorSizes(
    mel=80, channels=256, inner=512, ffn=1024, mid_blocks=12, layers=4, waves=320, time=1024, meanflow=True
)
TOKENIZER = SpeechTokenizerSizes(bands=128, hidden=1280, ffn=5120, layers=6, memory=31, digits=8)
CAM_PLUS = CamPlusSizes(bands=80, head=32, start=128, growth=32, inner=128, layers=(12, 24, 16), speaker=192)
PUBLISHED_TENSORS, PUBLISHED_NUMBERS = 2491, 266_139_345  # of `s3gen_meanflow.safetensors`
CONSTANTS = 128 * 201 + 400  # of the tokenizer's spectrogram, in two tensors


class Shapes(TensorShapes):
    """The shapes of a vocoder as large as the published one."""

    def __init__(self) -> None:
        found = {"conv_pre.weight": (512, 80, 7), "m_source.l_linear.weight": (1, 9)}
        found["f0_predictor.classifier.weight"] = (1, 512)
        super().__init__(TensorsInMemory(GOLDEN, {name: torch.empty(shape) for name, shape in found.items()}))


def test_the_networks_have_all_numbers_of_a_published_checkpoint():
    with on_meta():
        flow = S3FlowConditions(S3FlowSizes(6561, 192, CONFORMER, ESTIMATOR))
        estimator, times = Estimator(ESTIMATOR), EstimatorTimes(ESTIMATOR)
        vocoder = SymmetricHift(s3_vocoder_settings(Shapes()))
        nets = (flow, estimator, times, SpeechTokenizer(TOKENIZER), CamPlus(CAM_PLUS), vocoder)
    found = [tensor for net in nets for _, tensor in stored_tensors(net)]
    joined = 2 * ESTIMATOR.blocks * ESTIMATOR.layers  # three layers are one here
    with_gain = [
        tensor for name, tensor in stored_tensors(vocoder) if tensor.ndim == 3 and "source_downs" not in name
    ]  # weight norm keeps it apart
    assert len(found) + joined + len(with_gain) + 2 == PUBLISHED_TENSORS
    gains = sum(len(tensor) for tensor in with_gain)
    assert sum(tensor.numel() for tensor in found) + gains + CONSTANTS == PUBLISHED_NUMBERS


def test_sizes_are_those_of_the_tensors():
    conformer = ConformerSizes(hidden=32, ffn=48, heads=2, layers=2, up_layers=2, lookahead=3)
    estimator = EstimatorSizes(
        mel=80, channels=32, inner=64, ffn=128, mid_blocks=2, layers=1, waves=320, time=128, meanflow=False
    )
    assert S3FlowSizes.of(tensors("original")) == S3FlowSizes(6561, 192, conformer, estimator)
    assert S3FlowSizes.of(tensors("turbo")).estimator.meanflow
    found = cam_plus_sizes(TensorShapes(tensors("original"), SPEAKER))
    assert (found.growth, found.inner, found.layers) == (8, 32, (12, 24, 16))


@pytest.mark.parametrize(
    ("name", "shape", "said"),
    [
        ("encoder.pre_lookahead_layer.conv1.weight", (32,), "has only 1 axes"),
        ("decoder.estimator.mid_blocks.0.1.0.attn1.to_q.weight", (50, 32), "50 channels: not whole heads of 64"),
    ],
)
def test_a_tensor_that_shows_no_size_is_an_error(name, shape, said):
    found = {each: tensors("original").read(each) for each in tensors("original")} | {
        f"flow.{name}": torch.zeros(shape)
    }
    with pytest.raises(CheckpointError, match=said):
        S3FlowSizes.of(TensorsInMemory(GOLDEN / "x", found))
