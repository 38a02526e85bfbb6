"""References become upstream's codes, whatever their rate and channels."""

from pathlib import Path

import numpy as np
import pytest

from rhapsode.audio.decode import decode
from rhapsode.audio.sinc import resample_sinc
from rhapsode.types import Clip
from tiny.fish_s2_pro import BOOKS, CODES, HOP, RESIDUAL_CODES, SAMPLE_RATE, reference_audio
from unit.fish_s2_pro.asked import CASES, FULL, Family

# Made by this encoder when its codes equalled upstream's on upstream's checkpoint.
# The two nearest codes are always further apart than 1e-3.
FIRST = [30, 1, 1, 4, 4, 4, 35, 4, 4, 20, 35, 35, 35, 4, 8, 4, 19, 35, 35, 4, 4]
KNOWN = {0: [30, 0, 8, 11], 3: [4, 5, 3, 0], 16: [19, 11, 11, 6], 20: [4, 3, 6, 3]}


@pytest.fixture(scope="module")
def stages(tiny: Path) -> Family:
    return Family.open(tiny)


def test_codes_of_a_known_recording(stages: Family) -> None:
    found = stages.encode._encoder.encode(reference_audio(20 * HOP + 5))
    assert found.shape == (21, BOOKS)
    assert found[:, 0].tolist() == FIRST
    assert {frame: found[frame].tolist() for frame in KNOWN} == KNOWN
    assert (found.max(0) < [CODES, *[RESIDUAL_CODES] * (BOOKS - 1)]).all()


def test_a_part_of_a_frame_at_the_end_is_padded_with_silence(stages: Family) -> None:
    samples = reference_audio(7 * HOP + 5)
    padded = np.pad(samples, (0, HOP - 5))
    encode = stages.encode._encoder.encode
    assert np.array_equal(encode(samples), encode(padded))


def test_encoding_is_causal_and_sees_no_frame_ahead(stages: Family) -> None:
    samples = reference_audio(12 * HOP)
    encode = stages.encode._encoder.encode
    assert np.array_equal(encode(samples)[:8], encode(samples[: 8 * HOP]))


def test_channels_are_averaged_and_other_rates_resampled(stages: Family) -> None:
    left, right = reference_audio(4000, 0), reference_audio(4000, 1)
    stereo = Clip(np.stack((left, right)), 24_000)
    found = stages.encode._codes(stereo)
    mixed = resample_sinc(((left + right) / 2)[None], 24_000, SAMPLE_RATE)[0]
    assert len(found) == -(-7350 // HOP)
    assert np.array_equal(found, stages.encode._encoder.encode(mixed))


def test_equal_recordings_are_encoded_once(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rhapsode.checkpoints.folder import read_config
    from rhapsode.models.base import StageContext
    from rhapsode.models.fish_s2_pro.encode import Encode
    from rhapsode.models.fish_s2_pro.spec import SPEC
    from rhapsode.voices.cache import ReferenceCache

    cache = ReferenceCache(1 << 20)
    stage = Encode(StageContext(SPEC, tiny, read_config(tiny), "cpu", "float32", references=cache))
    clip = Clip(reference_audio(500)[None], SAMPLE_RATE)
    first = stage._codes(clip)
    assert stage._codes(Clip(clip.samples.copy(), SAMPLE_RATE)) is first
    assert not np.array_equal(stage._codes(Clip(clip.samples, 22_050)), first)  # the rate is part of what it is
    assert (cache.stats().hits, cache.stats().misses) == (1, 2)


@pytest.mark.skipif(not FULL, reason="set FISH_S2_PRO_GOLDEN to a folder with upstream's encoder")
def test_codes_are_upstreams(family: Family) -> None:
    folder = Path(FULL)
    cases = [(name, i, ref) for name, case in CASES.items() for i, ref in enumerate(case.get("references", ()))]
    for name, i, reference in [*cases, ("codec", 0, {"audio": "ref_long.wav"})]:
        expected = np.load(folder / f"{name}.npz")[f"reference_codes_{i}"]
        found = family.encode._codes(decode((folder / reference["audio"]).read_bytes()))
        assert np.array_equal(found, expected)
