"""The codec streams exactly, and its slots share nothing."""

import numpy as np
import pytest
import torch

from rhapsode.device.reach import Window
from rhapsode.errors import GenerationFailed
from rhapsode.models.moss_tts_nano import parts
from rhapsode.models.moss_tts_nano.codec import MossCodec
from unit.moss_tts_nano.asked import CHECKPOINT, Family, codec_rows, context_of, golden


@pytest.fixture(scope="module")
def exact() -> MossCodec:
    return MossCodec(context_of(CHECKPOINT, "float64"))


def codes(frames: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.RandomState(seed).randint(0, 37, (1, frames, 5)))


@pytest.mark.parametrize("seed", range(4))
def test_any_chunk_schedule_equals_one_pass(exact: MossCodec, seed: int) -> None:
    """One pass has no state at all: the windows are masks over the whole sequence."""
    given = codes(60, seed)
    whole = exact._decoder(given)[0]
    random, state = np.random.RandomState(seed), exact.state(3)
    pieces, at = [], 0
    while at < 60:
        size = int(random.choice([1, 1, 2, 3, 7, 16]))
        pieces.append(exact.decode(Window.of(given[:, at : at + size]), codec_rows([2]), state)[0])
        at += size
    streamed = torch.cat(pieces, dim=1)
    assert streamed.shape == whole.shape == (2, 60 * exact.hop)
    assert float((streamed - whole).abs().max()) <= 1e-8 * float(whole.abs().max())


def test_the_two_channels_differ(exact: MossCodec) -> None:
    left, right = exact._decoder(codes(4))[0]
    assert float((left - right).abs().max()) > 0.1 * float(left.abs().max())


def test_rows_of_a_batch_equal_each_alone_and_leave_other_slots_alone(exact: MossCodec) -> None:
    state = exact.state(3)
    first, second = codes(12, 1), codes(12, 2)
    exact.decode(Window.of(first[:, :5]), codec_rows([0]), state)
    untouched = [tensor[1].clone() for tensor in state.tensors()]
    rest = exact.decode(Window.of(torch.cat([first[:, 5:], second[:, :7]])), codec_rows([0, 2]), state)
    assert torch.allclose(rest[0], exact._decoder(first)[0][:, 5 * exact.hop :], atol=1e-12)
    assert torch.allclose(rest[1], exact._decoder(second)[0][:, : 7 * exact.hop], atol=1e-12)
    assert all(torch.equal(tensor[1], kept) for tensor, kept in zip(state.tensors(), untouched, strict=True))


def test_fewer_codebooks_are_decoded_as_if_the_others_did_not_exist(exact: MossCodec) -> None:
    given = codes(3)
    few = given.clone()
    few[..., 3:] = 37
    decoder = exact._decoder
    vectors = sum(torch.nn.functional.embedding(given[..., k], decoder.tables.view(5, 38, -1)[k]) for k in range(3))
    expected = decoder.decoder(decoder.quantizer.output_proj(vectors)).view(1, -1, 2).transpose(1, 2)
    assert torch.allclose(decoder(few), expected, atol=1e-12)


def test_a_code_out_of_range_changes_nothing(exact: MossCodec) -> None:
    state = exact.state(1)
    given = codes(2)
    given[0, 1, 4] = 38
    with pytest.raises(GenerationFailed, match="from 0 to 36"):
        exact.decode(Window.of(given), codec_rows([0]), state)
    assert not any(bool(tensor.any()) for tensor in state.tensors())


def test_a_long_clip_is_encoded_piece_by_piece_as_in_one_pass() -> None:
    """The golden's long clip has more frames than a piece."""
    expected = golden("codec")["reference_codes"]
    encoder = parts.encoder(context_of(CHECKPOINT)).double()
    samples = np.random.RandomState(0).uniform(-0.5, 0.5, (2, 50 * 48 + 47)).astype(np.float32)
    pieces = encoder.encode(samples)
    interleaved = torch.from_numpy(samples[:, : 50 * 48].T.copy()).double().view(1, -1, 1)
    assert len(expected) > 16
    np.testing.assert_array_equal(pieces, encoder.quantize(encoder.encoder(interleaved)[0]).numpy())


def test_a_clip_shorter_than_a_frame_has_no_codes(family: Family) -> None:
    assert parts.encoder(context_of(CHECKPOINT)).encode(np.zeros((2, 47), np.float32)).shape == (0, 5)
