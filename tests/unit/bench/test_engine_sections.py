"""Measuring an engine: fixed frame counts, sections that are timed, weights counted to the byte."""

import json
import time

import pytest
import torch

from rhapsode.bench.engine import byte_tokenizer
from rhapsode.bench.engine.bandwidth import copy_bandwidth
from rhapsode.bench.engine.bench import EngineBench
from rhapsode.bench.engine.clock import HostClock, clock_for
from rhapsode.bench.engine.measure import measure
from rhapsode.bench.engine.plan import EnginePlan
from rhapsode.bench.engine.section_times import SECTIONS, SectionTimes
from rhapsode.bench.engine.subject import SHAPES, subject
from rhapsode.bench.engine.texts import sentence
from rhapsode.device import sections
from rhapsode.device.replay import Replay
from rhapsode.device.sections import recording, section
from rhapsode.errors import RhapsodeError
from rhapsode.models.qwen3_tts.config import read
from rhapsode.models.qwen3_tts.decoder import CodecDecoderConfig
from unit.bench import shapes
from unit.bench.reports import check
from unit.command import python


@pytest.fixture(scope="module")
def shape(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shape") / "tiny-shape"
    return folder, shapes.write(folder)


@pytest.fixture(scope="module")
def report(shape):
    plan = EnginePlan(batches=(1, 3), frames=6, rounds=2, device="cpu", bandwidth=1e9)
    with subject(None, str(shape[0])) as chosen:
        return check(measure(chosen, plan))


def layer_bytes(c):
    hidden, ffn, head = c["hidden_size"], c["intermediate_size"], c["head_dim"]
    queries, keys = c["num_attention_heads"] * head, c["num_key_value_heads"] * head
    weights = hidden * (queries + 2 * keys) + queries * hidden + 3 * hidden * ffn + 2 * hidden + 2 * head
    return 4 * weights


def test_every_batch_is_measured_and_every_section_is_timed(report):
    labels = [f"{mode}, batch {batch}" for mode in ("graphs", "eager") for batch in (1, 3)]
    assert [run["label"] for run in report["runs"]] == labels
    for run in report["runs"]:
        timed = {*SECTIONS} - {"burst", "generator"} if run["mode"] == "eager" else set()  # a trace keeps no sections
        assert {*timed, "host"} == run["breakdown_ms"].keys()
        assert all(run["breakdown_ms"][name] > 0 for name in timed)
        assert run["summary"]["frame_ms"]["n"] == 2
        assert run["summary"]["first_audio_ms"]["n"] == 2 * run["batch"]
        for wall_s, audio_s_per_s in zip(run["samples"]["wall_s"], run["samples"]["audio_s_per_s"], strict=True):
            assert audio_s_per_s * wall_s == pytest.approx(run["batch"] * 6 * 0.08, rel=1e-3)


def test_the_weights_a_frame_reads_are_counted(report, shape):
    """Every layer once for the talker, once per code for the predictor; of tables only the rows looked up."""
    talker = shape[1]["talker_config"]
    predictor, hidden, books = talker["code_predictor_config"], talker["hidden_size"], talker["num_code_groups"] - 1
    narrow = predictor["hidden_size"]
    backbone = 3 * layer_bytes(talker) + 4 * hidden + 4 * talker["vocab_size"] * hidden
    per_code = 2 * layer_bytes(predictor) + 4 * narrow + 4 * predictor["vocab_size"] * narrow
    projection = 4 * (narrow * hidden + narrow)  # of each code's embedding, or of the frame's first two inputs only
    found = report["runs"][0]["weight_bytes_per_frame"]
    assert found["talker"] == pytest.approx(backbone, rel=0.01)
    assert 0.99 < found["depth"] / (books * per_code + projection) < 1.01 + books * projection / (books * per_code)
    assert report["runs"][0]["floor_ms"] == pytest.approx(sum(found.values()) / 1e9 * 1e3, rel=1e-3)
    assert report["runs"][0]["weight_bytes_per_codec_launch"] > 100_000


@pytest.mark.slow
def test_weights_of_eight_bits_are_counted_as_such(report, shape):
    plan = EnginePlan(batches=(1,), frames=2, rounds=1, device="cpu", bandwidth=1e9, weights="fp8")
    with subject(None, str(shape[0])) as chosen:
        narrow = check(measure(chosen, plan))
    assert narrow["config"]["deployment"]["weights"] == "fp8"
    talker = shape[1]["talker_config"]
    matrices = layer_bytes(talker) // 4 - 2 * talker["hidden_size"] - 2 * talker["head_dim"]
    outputs = 2 * talker["hidden_size"] + 2 * talker["intermediate_size"]
    outputs += (talker["num_attention_heads"] + 2 * talker["num_key_value_heads"]) * talker["head_dim"]
    saved = 3 * (3 * matrices - 4 * outputs)  # of each of three layers
    whole = report["runs"][0]["weight_bytes_per_frame"]["talker"]
    assert narrow["runs"][0]["weight_bytes_per_frame"]["talker"] == whole - saved


@pytest.mark.slow
def test_random_weights_never_end_by_themselves(shape):
    """Over 60 frames a random head draws the stop token now and then: the stage ignores it."""
    with subject(None, str(shape[0])) as chosen:
        plan = EnginePlan(batches=(2,), frames=60, device="cpu", bandwidth=1e9)
        with EngineBench(chosen, plan, "eager") as bench:
            assert [outcome.frames for outcome in bench.round(2).outcomes] == [60, 60]


def test_a_checkpoint_is_measured_at_fixed_frame_counts_too(shape):
    """The dummy family would end with its text, after some 30 frames."""
    with subject("dummy", None) as chosen:
        plan = EnginePlan(batches=(1,), frames=300, device="cpu", bandwidth=1e9)
        with EngineBench(chosen, plan, "eager") as bench:
            assert bench.round(1).outcomes[0].frames == 300


def test_two_engines_are_timed_apart(shape):
    with subject(None, str(shape[0])) as chosen:
        plan = EnginePlan(batches=(1,), frames=3, device="cpu", bandwidth=1e9)
        with EngineBench(chosen, plan, "eager") as one, EngineBench(chosen, plan, "eager") as other:
            for bench in (other, one):
                _, times = bench.split(1)
                assert times.runs["talker"] == 3
                assert {"prefill", "talker", "codec"} == times.runs.keys()  # the others are inside of these
                assert times.seconds["sampling"] > 0
    assert sections._recorder is None


class Moment:
    """An event of a graph: the next replay overwrites it."""

    at_s = 0.0


class GraphClock:
    """Says that everything is being captured, as a GPU's clock does meanwhile."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []
        self.waits = 0

    def mark(self) -> Moment:
        self.moments.append(Moment())
        return self.moments[-1]

    def between_s(self, earlier, later) -> float:
        return later.at_s - earlier.at_s

    def wait(self) -> None:
        self.waits += 1

    def capturing(self) -> bool:
        return True


def test_a_captured_section_is_read_after_each_replay():
    """The step runs once, when it is captured. A replay only records its events again."""
    clock = GraphClock()
    times = SectionTimes(clock)
    with recording(times):
        with section("talker"), section("depth"):
            pass
        events = sections.captured()
        assert sections.captured() is None  # the next graph has events of its own
        for step_s in (1.0, 3.0):
            for i, moment in enumerate(clock.moments):
                moment.at_s = i * step_s
            sections.replayed(events)
    assert clock.waits == 2
    times.settle()
    assert times.seconds == {"talker": 8.0, "depth": 4.0}  # before and after the head, and the head
    assert times.runs == {"talker": 2}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: there are no graphs on a CPU")
def test_sections_of_a_cuda_graph_take_the_time_their_work_takes():
    device = torch.device("cuda")
    x = torch.randn(2048, 2048, device=device)

    def launch(given):
        with section("talker"):
            out = given @ x
            with section("depth"):
                for _ in range(20):
                    out = out @ x
        return out

    replay = Replay(launch)
    with recording(SectionTimes(clock_for(device))):
        replay.capture(torch.randn(2048, 2048, device=device))
    replay(x)  # without a recorder
    times = SectionTimes(clock_for(device))
    with recording(times):
        for _ in range(3):
            replay(x)
    times.settle()
    assert times.runs == {"talker": 3}
    assert times.seconds["depth"] > 5 * times.seconds["talker"] > 0


def test_the_innermost_open_section_gets_the_time(monkeypatch):
    moments = iter((0.0, 1.0, 3.0, 3.5, 4.0, 6.0))
    clock = HostClock()
    monkeypatch.setattr(clock, "mark", lambda: next(moments))
    times = SectionTimes(clock)
    with recording(times), section("talker"), section("depth"), section("sampling"):
        pass
    times.end()  # of a section that began before the recording
    times.settle()
    assert times.seconds == {"talker": 3.0, "depth": 2.5, "sampling": 0.5}
    assert times.runs == {"talker": 1}


@pytest.mark.parametrize(("name", "params_b"), [("qwen3-tts-0.6b", 3.31), ("qwen3-tts-1.7b", 5.25)])
def test_the_shapes_that_ship_are_the_published_ones(name, params_b):
    folder = SHAPES / name
    config = json.loads((folder / "config.json").read_text())
    parsed = read(config, folder)
    talker, predictor = config["talker_config"], config["talker_config"]["code_predictor_config"]
    per_frame = 28 * layer_bytes(talker) + 4 * 3072 * talker["hidden_size"]
    per_frame += 15 * (5 * layer_bytes(predictor) + 4 * 2048 * 1024)
    assert per_frame / 2 / 1e9 == pytest.approx(params_b, abs=0.07)  # bfloat16 is half of float32
    assert parsed.groups == 16
    codec = json.loads((folder / "speech_tokenizer" / "config.json").read_text())
    assert CodecDecoderConfig.from_dict(codec["decoder_config"]).hop == 1920


def test_a_shape_can_be_a_file_and_must_exist(shape):
    with subject(None, str(shape[0] / "config.json")) as chosen:
        assert chosen.spec.name == "qwen3-tts"
        assert chosen.byte_tokens
        assert (chosen.model.checkpoint / "speech_tokenizer" / "config.json").is_file()
    with pytest.raises(RhapsodeError, match=r"did you mean 'qwen3-tts-1.7b'"), subject(None, "qwen3-tts-1.7"):
        pass


def test_the_byte_tokenizer_makes_a_token_a_byte():
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(json.dumps(byte_tokenizer.description()))
    assert tokenizer.encode("Hé!").ids == list("Hé!".encode())
    assert len(tokenizer.encode("assistant\n").ids) == 2


def test_sentences_are_all_different_and_repeat():
    assert len({sentence(40, seed) for seed in range(50)}) == 50
    assert sentence(40, 3) == sentence(40, 3)
    assert 30 < len(sentence(40, 3)) < 60


def test_a_copy_takes_time():
    started_s = time.perf_counter()
    bandwidth = copy_bandwidth(torch.device("cpu"))
    assert 1e8 < bandwidth < 1e13
    assert time.perf_counter() - started_s < 30


BARE = """
import importlib.util, sys
MISSING = {"soxr", "av", "tokenizers", "safetensors", "sentencex", "huggingface_hub", "hibari", "aiohttp", "jiwer",
           "matplotlib", "jsonschema"}
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in MISSING:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Block())
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: (
    None if name.split(".")[0] in MISSING and name not in sys.modules else found(name, package))
sys.argv = ["rhapsode", "bench", "engine", "--random-weights", sys.argv[1], "--batch", "1", "--frames", "3",
            "--rounds", "1", "--device", "cpu", "--bandwidth", "10", "-o", "bare.json"]
from rhapsode.cli.main import main
main()
"""


@pytest.mark.slow
def test_torch_and_a_command_line_are_enough_for_random_weights(shape, tmp_path):
    """A GPU machine has no av, no soxr, perhaps no tokenizers: speed can be measured there all the same."""
    code = BARE.replace("sys.argv[1]", repr(str(shape[0])))
    assert "random weights" in python(code, tmp_path)
    assert "stand-ins" in " ".join(check(tmp_path / "bare.json")["notes"])


def test_help_imports_neither_torch_nor_what_measures(tmp_path):
    heavy = {"torch", "numpy", "aiohttp", "rhapsode.bench.report"}
    code = f"import sys; import rhapsode.cli.main; print(sorted({heavy} & set(sys.modules)))"
    assert python(code, tmp_path).strip() == "[]"
