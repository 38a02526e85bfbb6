"""The codec on upstream's outputs for other checkpoints, which are too large to be committed."""

import json
import os
import wave
from pathlib import Path

import numpy as np
import pytest
import torch

from rhapsode.checkpoints.weights import Weights
from rhapsode.models.higgs.codec import parts
from rhapsode.models.higgs.codec.names import V3_PREFIX
from rhapsode.models.higgs.codec.original import open_codec
from rhapsode.models.higgs.codec.reference import ReferenceEncoder
from rhapsode.models.higgs.codec.settings import CodecSettings
from rhapsode.models.higgs.codec.worker import HiggsCodec
from unit.higgs_codec.asked import context, streamed

FOLDER = Path(os.environ.get("HIGGS_GOLDEN", ""))
pytestmark = pytest.mark.skipif("HIGGS_GOLDEN" not in os.environ, reason="HIGGS_GOLDEN names no folder of goldens")
V2, V3 = FOLDER / "higgs-v2", FOLDER / "higgs-v3"


def samples(path: Path) -> np.ndarray:
    with wave.open(str(path)) as file:
        return (np.frombuffer(file.readframes(file.getnframes()), np.int16) / 32768).astype(np.float32)


def built(version: Path, half):
    if version is V2:
        return half(CodecSettings.of(V2 / "codec"), context(), lambda: open_codec(V2 / "codec"))
    settings = CodecSettings.of(V3 / "checkpoint" / "audio_tokenizer")
    return half(settings, context(), lambda: Weights(V3 / "checkpoint"), V3_PREFIX)


@pytest.mark.parametrize("version", [V2, V3], ids=["v2", "v3"])
def test_waveforms(version):
    worker = HiggsCodec(built(version, parts.decoder))
    files = [version / "codec.npz", *(version / case["expected"] for case in cases(version))]
    for file in files:
        arrays = np.load(file)
        codes = torch.from_numpy(arrays["codes" if "codes" in arrays else "frames"]).long()
        for sizes in ([], [1, 2, 4, 8]):
            np.testing.assert_allclose(streamed(worker, codes, sizes), arrays["waveform"], atol=1e-5)


@pytest.mark.parametrize("version", [V2, V3], ids=["v2", "v3"])
def test_references(version):
    references = ReferenceEncoder(built(version, parts.encoder), 0.0 if version is V2 else 1.0)
    compared = 0
    for case in cases(version):
        arrays = np.load(version / case["expected"])
        for i, name in enumerate(audio_of(case)):
            assert np.array_equal(references.encode([samples(version / name)])[0], arrays[f"reference{i}_codes"])
            compared += 1
    assert compared > 1


def cases(version: Path) -> list[dict]:
    return json.loads((version / "cases.json").read_text())["cases"]


def audio_of(case: dict) -> list[str]:
    scene = case["scene"] if isinstance(case.get("scene"), list) else []
    found = [entry["reference"] for entry in scene if "reference" in entry]
    found += [entry["audio"] for entry in case.get("references", ())]
    return [*found, *([case["reference"]["audio"]] if "reference" in case else [])]
