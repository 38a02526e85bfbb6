"""The engine streams the codec exactly, whoever else it serves: the dummy talker makes the frames."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rhapsode.config import resolve
from rhapsode.engine import Engine
from rhapsode.models.base import StageContext
from rhapsode.models.dummy.spec import SPEC
from rhapsode.models.dummy.talker import CODEBOOKS, CODES
from rhapsode.models.higgs.codec import parts
from rhapsode.models.higgs.codec.settings import CodecSettings
from rhapsode.models.higgs.codec.worker import HiggsCodec
from rhapsode.testing.subject import assert_all_free, hear
from rhapsode.types import SpeechRequest
from tiny import higgs_codec as tiny
from unit.higgs_codec.asked import held

RECIPE = tiny.TinyCodec(books=CODEBOOKS, codes=CODES)
TEXTS = ("Hi.", "Something to say.", "Somewhat more of it, in chunks.")


def vocode(context: StageContext) -> HiggsCodec:
    made = {name: torch.from_numpy(array) for name, array in tiny.tensors(RECIPE).items()}
    settings = CodecSettings.from_dict(tiny.config(RECIPE))
    return HiggsCodec(parts.decoder(settings, replace(context, dtype="float64"), lambda: held(made)))


def spoken(**flags: object) -> list[np.ndarray]:
    *before, last = SPEC.pipeline
    pipeline = (*before, replace(last, factory=f"{__name__}:vocode"))
    spec = replace(SPEC, pipeline=pipeline, sample_rate=tiny.SAMPLE_RATE, frame_hz=25.0)
    with Engine(spec, resolve(env={}, flags=flags)) as engine:
        heard = [hear(one) for one in [engine.submit(SpeechRequest(text, seed=3)) for text in TEXTS]]
        assert_all_free(engine)
    return heard


@pytest.fixture(scope="module")
def whole() -> list[np.ndarray]:
    """All frames of an utterance in one chunk."""
    return spoken(chunks={"first": 64, "largest": 64, "ring": 80})


@pytest.mark.parametrize(
    "flags",
    [
        {"chunks": {"first": 3, "largest": 5, "ring": 16}},
        {"chunks": {"largest": 1, "ring": 4}},
        {"deterministic": True, "chunks": {"batch": 2}},
        {"limits": {"max_concurrency": 1}},
    ],
    ids=str,
)
def test_every_schedule_gives_the_same_samples(whole, flags):
    found = spoken(**flags)
    assert len({one.shape for one in whole}) == len(TEXTS)
    for one, other in zip(whole, found, strict=True):
        assert one.shape == other.shape
        assert one.std() > 0.01
        np.testing.assert_allclose(one, other, atol=1e-6)  # the listener is given float32
