"""The codec's decoder against upstream's one pass, however its frames are cut."""

import json
import platform
import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rhapsode.device.reach import Reach, Window
from rhapsode.device.slots import Rows, SlotTable
from rhapsode.device.state import State
from rhapsode.errors import CheckpointError, GenerationFailed, InvalidRequest
from rhapsode.models.base import StageContext
from rhapsode.models.qwen3_tts.codec import QwenCodec
from rhapsode.models.qwen3_tts.spec import SPEC
from tiny.qwen3_tts import CODES, GROUPS, HOP, Tiny, random_codes, write

SLOTS = 4
GOLDEN = Path(__file__).parents[2] / "golden" / "qwen3_tts"
INDEX = json.loads((GOLDEN / "index.json").read_text())
INFO = INDEX["codec"]
# Upstream's rotary table is float32, and its last bit depends on the processor: the goldens were made on an x86.
FP64, FP32 = 1e-8 if platform.machine() in ("x86_64", "AMD64") else 1e-6, 1e-4
APART = 1e-5  # in fp32, two ways to cut the same frames: kernels add up in another order for another shape


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    made = INDEX["checkpoints"][INFO["checkpoint"]]
    assert write(folder, Tiny(**made["recipe"])) == made["fingerprint"]
    return folder


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    return dict(np.load(GOLDEN / "codec.npz"))


@pytest.fixture(scope="module")
def codec(folder: Path) -> QwenCodec:
    return open_codec(folder, "float32")


@pytest.fixture(autouse=True)
def inference() -> Iterator[None]:
    with torch.inference_mode():
        yield


def open_codec(folder: Path, dtype: str, random_weights: bool = False) -> QwenCodec:
    return QwenCodec(StageContext(SPEC, folder, {}, "cpu", dtype, random_weights=random_weights))


def rows(*slots: int) -> Rows:
    return Rows(torch.tensor(slots), SlotTable(SLOTS, 0, torch.device("cpu")))


def codes(n_frames: int, seed: int | None = None) -> torch.Tensor:
    return torch.from_numpy(random_codes(n_frames, n_frames if seed is None else seed))[None]  # [1, F, G]


def decode(codec: QwenCodec, frames: torch.Tensor, lengths: list[int], at: Rows, state: State) -> np.ndarray:
    chunks = [codec.decode(Window.of(chunk), at, state) for chunk in frames.split(lengths, dim=1)]
    assert [chunk.shape[1:] for chunk in chunks] == [(1, length * HOP) for length in lengths]
    return torch.cat(chunks, dim=-1)[:, 0].numpy()  # [B, samples]


def whole(codec: QwenCodec, frames: torch.Tensor) -> np.ndarray:
    return decode(codec, frames, [frames.shape[1]], rows(0), codec.state(SLOTS))[0]


def cut(n_frames: int, seed: int) -> list[int]:
    """A random chunk schedule."""
    choose, lengths = random.Random(seed), []
    while (left := n_frames - sum(lengths)) > 0:
        lengths.append(min(left, choose.choice([1, 1, 2, 3, 5, 8, 40])))
    return lengths


def test_the_face_the_engine_sees(codec: QwenCodec):
    assert (codec.hop, codec.channels, codec.reach) == (HOP, 1, Reach())


@pytest.mark.parametrize("seed", range(3))
def test_streamed_in_fp64_it_is_upstreams_one_pass(folder: Path, golden: dict[str, np.ndarray], seed: int):
    codec = open_codec(folder, "float64")
    n_frames = INFO["middle_frames"]
    audio = decode(codec, codes(n_frames), cut(n_frames, seed), rows(1), codec.state(SLOTS))[0]
    assert np.abs(audio[:: INFO["middle_stride"]] - golden["middle_64"]).max() < FP64


def test_past_300_frames_in_fp64(folder: Path, golden: dict[str, np.ndarray]):
    codec, n_frames = open_codec(folder, "float64"), INFO["long_frames"]
    audio = decode(codec, codes(n_frames), cut(n_frames, 0), rows(1), codec.state(SLOTS))[0]
    assert np.abs(audio.reshape(-1, HOP)[INFO["long_kept_frames"]] - golden["long_64"]).max() < FP64


def test_past_300_frames_in_fp32(codec: QwenCodec, golden: dict[str, np.ndarray]):
    n_frames = INFO["long_frames"]
    audio = decode(codec, codes(n_frames), cut(n_frames, 1), rows(2), codec.state(SLOTS))[0]
    assert np.abs(audio.reshape(-1, HOP)[INFO["long_kept_frames"]] - golden["long_64"]).max() < FP32


def test_in_fp32_it_is_upstreams_fp32(codec: QwenCodec, golden: dict[str, np.ndarray]):
    assert np.abs(whole(codec, codes(INFO["short_frames"])) - golden["short_32"]).max() < FP32


@pytest.mark.parametrize("lengths", [[1] * 24, [5] * 4 + [4], [1, 2, 4, 8, 9], [23, 1]])
def test_every_schedule_gives_the_same_samples(codec: QwenCodec, lengths: list[int]):
    frames = codes(24)
    streamed = decode(codec, frames, lengths, rows(3), codec.state(SLOTS))[0]
    assert np.abs(streamed - whole(codec, frames)).max() < APART


def test_the_same_schedule_gives_the_same_bits(codec: QwenCodec):
    frames, lengths = codes(12), [1, 3, 8]
    first, second = (decode(codec, frames, lengths, rows(1), codec.state(SLOTS)) for _ in range(2))
    assert np.array_equal(first, second)


def test_rows_of_a_batch_are_what_each_is_alone(codec: QwenCodec):
    frames, state = torch.cat([codes(12, seed) for seed in range(3)]), codec.state(SLOTS)
    early = decode(codec, frames[1:2, :5], [5], rows(2), state)[0]  # one row is ahead of the others
    late = torch.stack([frames[0, :7], frames[1, 5:], frames[2, :7]])
    together = decode(codec, late, [3, 4], rows(3, 2, 0), state)
    for row, heard in ((0, together[0]), (1, np.concatenate([early, together[1]])), (2, together[2])):
        alone = whole(codec, frames[row : row + 1])
        assert np.abs(heard - alone[: len(heard)]).max() < APART


def test_padding_rows_may_share_the_scratch_slot(codec: QwenCodec):
    frames, state = codes(4).repeat(3, 1, 1), codec.state(SLOTS)
    audio = decode(codec, frames, [1, 3], rows(1, SLOTS, SLOTS), state)
    assert np.abs(audio[0] - whole(codec, frames[:1])).max() < APART


def test_a_cleared_slot_has_forgotten_everything(codec: QwenCodec):
    state, at = codec.state(SLOTS), rows(1)
    before = decode(codec, codes(9), [9], at, state)
    state.clear(at.slots)
    assert not any(tensor.any() for tensor in state.tensors())
    assert np.array_equal(decode(codec, codes(9), [9], at, state), before)


@pytest.mark.parametrize("n_reference", [1, 3, 25, 150])
def test_after_a_reference_speech_goes_on_as_if_it_had_been_decoded(folder: Path, n_reference: int):
    codec = open_codec(folder, "float64")
    both, state = codes(n_reference + 8), codec.state(SLOTS)
    payload = SimpleNamespace(reference_codes=both[0, :n_reference].numpy())
    codec.open([payload], rows(2), state)
    audio = decode(codec, both[:, n_reference:], [1, 7], rows(2), state)[0]
    assert np.abs(audio - whole(codec, both)[n_reference * HOP :]).max() < 1e-12


def test_references_of_several_requests_are_run_together(folder: Path):
    codec, lengths = open_codec(folder, "float64"), (150, 1, 25, 70)
    both, state = [codes(n + 8) for n in lengths], codec.state(SLOTS)
    slots = rows(2, 0, 3, 1)
    codec.open(
        [SimpleNamespace(reference_codes=one[0, :n].numpy()) for one, n in zip(both, lengths, strict=True)],
        slots,
        state,
    )
    speech = torch.cat([one[:, n:] for one, n in zip(both, lengths, strict=True)])
    for row, one, n in zip(decode(codec, speech, [1, 7], slots, state), both, lengths, strict=True):
        assert np.abs(row - whole(codec, one)[n * HOP :]).max() < 1e-12


def test_a_payload_without_a_reference_changes_nothing(codec: QwenCodec):
    state = codec.state(SLOTS)
    for reference in (None, codes(4)[0, :0]):
        codec.open([SimpleNamespace(reference_codes=reference)], rows(0), state)
    assert not any(tensor.any() for tensor in state.tensors())


@pytest.mark.parametrize("bad", [np.full((3, GROUPS), CODES), np.full((3, GROUPS), -1), np.zeros((3, GROUPS - 1), int)])
def test_impossible_reference_codes_are_refused(codec: QwenCodec, bad: np.ndarray):
    with pytest.raises(InvalidRequest, match="Reference codes"):
        codec.open([SimpleNamespace(reference_codes=bad)], rows(0), codec.state(SLOTS))


@pytest.mark.parametrize("code", [CODES, -1])
def test_a_code_outside_its_codebook_is_an_error_that_changes_no_slot(codec: QwenCodec, code: int):
    frames, state = codes(3).clone(), codec.state(SLOTS)
    frames[0, 1, 5] = code
    with pytest.raises(GenerationFailed, match="code"):
        codec.decode(Window.of(frames), rows(0), state)
    assert not any(tensor.any() for tensor in state.tensors())


def test_samples_stay_within_full_scale(folder: Path):
    codec = open_codec(folder, "float32")
    codec._decoder.decoder[-1].conv.bias.fill_(3.0)
    codec._decoder.packed = None  # which has the weights already
    assert whole(codec, codes(2)).max() == 1.0


def test_in_bf16_samples_are_float32_and_near(folder: Path, golden: dict[str, np.ndarray]):
    audio = whole(open_codec(folder, "bfloat16"), codes(INFO["short_frames"]))
    assert audio.dtype == np.float32
    assert np.abs(audio - golden["short_32"]).mean() < 0.02


def test_random_weights_need_the_config_only(folder: Path, tmp_path: Path):
    (tmp_path / "speech_tokenizer").mkdir()
    config = (folder / "speech_tokenizer" / "config.json").read_text()
    (tmp_path / "speech_tokenizer" / "config.json").write_text(config)
    audio = whole(open_codec(tmp_path, "float32", random_weights=True), codes(3))
    assert np.isfinite(audio).all()
    assert audio.std() > 0


def test_without_a_checkpoint_there_is_one_clear_error():
    with pytest.raises(CheckpointError, match="needs a checkpoint"):
        QwenCodec(StageContext(SPEC, None, {}, "cpu", "float32"))
