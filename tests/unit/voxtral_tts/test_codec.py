"""The codec is upstream's, and a stream of frames is exactly the whole, however it is cut."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rhapsode.device.reach import Window
from rhapsode.errors import CheckpointError, ConfigError, GenerationFailed
from rhapsode.models.base import StageContext
from rhapsode.models.registry import find
from rhapsode.models.settings import parse_settings
from rhapsode.models.voxtral_tts import parts
from rhapsode.models.voxtral_tts.codec_net import VoxtralCodecDecoder
from rhapsode.models.voxtral_tts.config import read_codec
from rhapsode.models.voxtral_tts.spec import SPEC
from tiny.voxtral_tts import Tiny, params
from unit.voxtral_tts.asked import CASES, INDEX, Family, Stage, golden

EVERY, HOP, CONTEXT = INDEX["every"], 1920, 21


def context(folder: Path, dtype: str = "float32", random_weights: bool = False) -> StageContext:
    return StageContext(SPEC, folder, find(str(folder)).config, "cpu", dtype, random_weights=random_weights)


def frames(name: str = "codec") -> torch.Tensor:
    return torch.from_numpy(golden(name)["rows"]).long()[None]


@pytest.fixture(scope="module")
def wide(golden_folder: Path) -> VoxtralCodecDecoder:
    return parts.decoder(context(golden_folder, "float64"))


@pytest.fixture(scope="module")
def whole(wide: VoxtralCodecDecoder) -> torch.Tensor:
    with torch.inference_mode():
        return wide(frames())


@pytest.mark.parametrize("name", ["codec", *CASES])
def test_one_pass_is_upstreams(golden_folder: Path, name: str) -> None:
    found = parts.decoder(context(golden_folder))(frames(name))[0, 0]
    wanted = golden(name)["waveform"]
    assert len(found) == HOP * frames(name).shape[1]
    assert np.abs(found[::EVERY].numpy() - wanted).max() < 1e-5
    assert wanted.std() > 0.05


@pytest.mark.slow
@given(sizes=st.lists(st.integers(1, 20), min_size=46))
def test_a_stream_is_the_whole_for_every_chunk_schedule(
    wide: VoxtralCodecDecoder, whole: torch.Tensor, sizes: list[int]
):
    state, slots, pieces, at = wide.state(3), torch.tensor([1]), [], 0
    for size in sizes:
        if at < 46:
            pieces.append(wide(frames()[:, at : at + size], slots, state))
        at += size
    assert float((torch.cat(pieces, dim=-1) - whole).abs().max()) < 1e-8


def test_slots_keep_to_themselves(wide: VoxtralCodecDecoder, whole: torch.Tensor) -> None:
    one, other = frames()[:, :9], frames()[:, 20:29]
    state = wide.state(3)
    wide(one[:, :4], torch.tensor([2]), state)
    both = wide(torch.cat((one[:, 4:], other[:, :5])), torch.tensor([2, 0]), state)
    assert float((both[0] - whole[0, :, 4 * HOP : 9 * HOP]).abs().max()) < 1e-8
    assert float((both[1] - wide(other[:, :5])[0]).abs().max()) < 1e-8
    state.clear(torch.tensor([2]))
    again = wide(one[:, :1], torch.tensor([2]), state)
    assert float((again - whole[..., :HOP]).abs().max()) < 1e-8


def test_a_code_is_heard_from_its_own_frame_on_and_no_longer_than_upstreams(
    wide: VoxtralCodecDecoder, whole: torch.Tensor
) -> None:
    wanted, at = golden("codec"), int(golden("codec")["perturbed_frame"])
    changed = frames()
    changed[0, at, 1] = 2 if changed[0, at, 1] > 12 else 22
    different = ((wide(changed) - whole)[0, 0].abs() > 0).nonzero().flatten()
    first, last = wanted["changed_samples"]
    assert int(different[0]) == at * HOP
    assert abs(int(different[0]) - int(first)) < HOP
    assert abs(int(different[-1]) - int(last)) < HOP
    assert int(different[-1]) < (at + CONTEXT + 1) * HOP


def test_a_frame_with_an_impossible_code_changes_nothing(tiny: Family) -> None:
    rows, state = Stage(tiny.talker).rows(0), tiny.codec.state(4)
    good = torch.full((1, 1, 6), 3)
    for book, code in ((0, 1), (0, 39), (3, 1), (3, 11)):
        bad = good.clone()
        bad[0, 0, book] = code
        with pytest.raises(GenerationFailed, match="code"):
            tiny.codec.decode(Window.of(bad), rows, state)
    assert not any(bool(tensor.any()) for tensor in state.tensors())
    assert tiny.codec.decode(Window.of(good), rows, state).shape == (1, 1, tiny.codec.hop)


def test_padding_rows_have_no_codes_to_check(tiny: Family) -> None:
    rows, state = Stage(tiny.talker, slots=4).rows(1, 4), tiny.codec.state(4)  # slot 4 is scratch
    frames = torch.stack((torch.full((2, 6), 3), torch.zeros(2, 6, dtype=torch.int64)))
    alone = tiny.codec.decode(Window.of(frames[:1]), Stage(tiny.talker).rows(1), tiny.codec.state(4))
    torch.testing.assert_close(tiny.codec.decode(Window.of(frames), rows, state)[:1], alone)


def test_many_rows_are_decoded_in_parts(tiny: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Stage(tiny.talker, slots=3).rows(0, 1, 2)
    given = torch.randint(2, 11, (3, 4, 6))
    at_once = tiny.codec.decode(Window.of(given), rows, tiny.codec.state(3))
    monkeypatch.setattr("rhapsode.models.voxtral_tts.codec.AT_ONCE", 4)
    torch.testing.assert_close(tiny.codec.decode(Window.of(given), rows, tiny.codec.state(3)), at_once)


def decoded(family: Family, given: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    rows, state = Stage(family.talker).rows(3, 1), family.codec.state(4)
    pieces = [family.codec.decode(Window.of(chunk), rows, state) for chunk in given.split(sizes, dim=1)]
    return torch.cat(pieces, dim=-1)


@pytest.mark.parametrize("sizes", [[9], [1] * 9, [1, 2, 4, 2]])
def test_a_start_can_be_warmed_up_and_faded_in(tiny_folder: Path, sizes: list[int]) -> None:
    given = torch.randint(2, 11, (2, 9, 6), generator=torch.Generator().manual_seed(3))
    plain, warm = (Family.open(tiny_folder, "float64", **wish) for wish in ({}, {"warm_up_frames": 2}))
    with_copies = decoded(plain, torch.cat((given[:, :1], given[:, :1], given), dim=1), [11])[
        ..., 2 * plain.codec.hop :
    ]
    assert float((decoded(warm, given, sizes) - with_copies).abs().max()) < 1e-8
    assert float((decoded(plain, given, sizes) - with_copies).abs().max()) > 1e-3
    faded = Family.open(tiny_folder, "float64", fade_in_ms=2.0)  # 48 samples, more than a frame
    gain = (torch.arange(9 * plain.codec.hop) / 48).clamp(max=1)
    assert float((decoded(faded, given, sizes) - decoded(plain, given, [9]) * gain).abs().max()) < 1e-8


@pytest.mark.parametrize("settings", [{"warm_up_frames": 9}, {"fade_in_ms": -1.0}, {"fade": 1.0}])
def test_settings_that_do_not_fit_are_refused(settings: dict) -> None:
    with pytest.raises(ConfigError, match=r"warm_up_frames|fade_in_ms"):
        parse_settings(SPEC, settings)


def test_random_weights_sound(tiny_folder: Path) -> None:
    found = parts.decoder(context(tiny_folder, random_weights=True))(torch.full((1, 3, 6), 4))
    assert bool(found.isfinite().all())
    assert float(found.std()) > 1e-3


def test_windows_shrink_towards_the_latents() -> None:
    config = read_codec(params(Tiny()))
    assert [block.window for block in config.encoder_blocks()] == [16, 8, 4, 2]
    assert [block.window for block in config.decoder_blocks()] == [2, 4, 8, 16]
    settings = params(Tiny())
    settings["multimodal"]["audio_tokenizer_args"]["half_attn_window_upon_downsampling"] = False
    assert {block.window for block in read_codec(settings).decoder_blocks()} == {16}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"causal": False}, "causal"),
        ({"channels": 2}, "mono"),
        ({"layer_scale": False}, "layer scales"),
        ({"use_biases": True}, "biases"),
        ({"decoder_convs_strides_str": "1,2,2,4"}, "same product"),
        ({"decoder_convs_kernels_str": "3,4,4"}, "same length"),
        ({"decoder_convs_kernels_str": "3,4,4,x"}, "commas"),
        ({"dim": None}, "'dim' is missing"),
        ({"voice": {"a": "first"}}, "index"),
    ],
)
def test_another_kind_of_codec_is_refused(change: dict, words: str) -> None:
    settings = params(Tiny())
    settings["multimodal"]["audio_tokenizer_args"] |= change
    with pytest.raises(CheckpointError, match=words):
        read_codec(settings)
