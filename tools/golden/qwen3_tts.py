"""Run upstream qwen-tts 0.1.1 on tiny checkpoints and write golden files. How to run it: README.md beside this file.

usage: python tools/golden/qwen3_tts.py [talk] [codec] [reference] [sampling] [--out FOLDER]      (default: everything)
"""

import argparse
import importlib.metadata
import json
import math
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "tests")]
import stubs  # noqa: E402

stubs.install()
warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from qwen3_tts_cases import BASE, BATCHES, CASES, CV, HISTORY_LENGTHS, SAMPLING, Batch, Case  # noqa: E402
from qwen_tts import Qwen3TTSModel  # noqa: E402
from qwen_tts.core.models import modeling_qwen3_tts as upstream_talker  # noqa: E402
from qwen_tts.core.tokenizer_12hz import modeling_qwen3_tts_tokenizer_v2 as upstream_codec  # noqa: E402
from safetensors import safe_open  # noqa: E402

from tiny import qwen3_tts as tiny_qwen3  # noqa: E402
from tiny import weights  # noqa: E402
from tiny.qwen3_tts import CODES, EOS, GROUPS, HOP, SAMPLE_RATE, Tiny  # noqa: E402

MARGIN = 1e-3  # least distance between the best and the second best logit of any choice
COLUMNS = [*range(CODES), EOS]  # the only talker logits that are never suppressed
GREEDY = {"do_sample": False, "subtalker_dosample": False}


# ---------------------------------------------------------------------------------------------------- upstream, watched
@dataclass
class Trace:
    """What one upstream call computed, row by row."""

    talker: list[torch.Tensor] = field(default_factory=list)  # raw codec_head rows, one [B, vocab] per draw
    scores: list[torch.Tensor] = field(default_factory=list)  # the same after the logits processors
    predictor: list[torch.Tensor] = field(default_factory=list)  # raw lm_head rows, [B, CODES], 15 per frame
    prompt: torch.Tensor | None = None  # [B, T, hidden], left-padded
    prompt_mask: torch.Tensor | None = None
    trailing: torch.Tensor | None = None  # [B, n, hidden]
    codes: list[torch.Tensor] = field(default_factory=list)  # [frames, GROUPS] per row
    wavs: list[np.ndarray] = field(default_factory=list)
    seconds: float = 0.0


class Upstream:
    """One loaded checkpoint, with hooks on every output the goldens need."""

    def __init__(self, tiny: Tiny) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.fingerprint = tiny_qwen3.write(folder, tiny)
            self.model = Qwen3TTSModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
            for module, file in (
                (self.model.model, folder),
                (self.model.model.speech_tokenizer.model, f"{folder}/speech_tokenizer"),
            ):
                with safe_open(f"{file}/model.safetensors", "np") as checkpoint:
                    assert set(checkpoint.keys()) == set(module.state_dict()), "tensor names are not upstream's"
        self.kind = tiny.kind
        self.trace = Trace()
        talker = self.model.model.talker
        talker.codec_head.register_forward_hook(lambda _m, _i, out: self.trace.talker.append(out[:, -1].clone()))
        for head in talker.code_predictor.lm_head:
            head.register_forward_hook(lambda _m, _i, out: self.trace.predictor.append(out[:, -1].clone()))
        self._watch_generate(talker)

    def _watch_generate(self, talker: Any) -> None:
        generate, top_generate = talker.generate, self.model.model.generate

        def talker_generate(**arguments: Any) -> Any:
            self.trace.prompt = arguments["inputs_embeds"]
            self.trace.prompt_mask = arguments["attention_mask"]
            self.trace.trailing = arguments["trailing_text_hidden"]
            start = time.perf_counter()
            result = generate(**arguments)
            self.trace.seconds = time.perf_counter() - start
            return result

        def model_generate(**arguments: Any) -> Any:
            codes, hidden = top_generate(**arguments)
            self.trace.codes = codes
            return codes, hidden

        talker.generate = talker_generate
        self.model.model.generate = model_generate

    def speak(self, texts: list[str], cases: list[Case], **sampling: Any) -> Trace:
        """Ask upstream for these cases in one call, greedily."""
        self.trace = Trace()
        asks = [case.ask for case in cases]
        sampling = GREEDY | {"max_new_tokens": cases[0].frames + 1} | sampling  # the last draw never becomes a frame
        common = {
            "text": texts,
            "language": [ask["language"] for ask in asks],
            "non_streaming_mode": cases[0].non_streaming,
        } | sampling
        with recorded_scores(self.trace.scores):
            if self.kind == "custom_voice":
                wavs, _ = self.model.generate_custom_voice(
                    speaker=[ask["speaker"] for ask in asks],
                    instruct=[ask.get("instruct", "") for ask in asks],
                    **common,
                )
            elif self.kind == "voice_design":
                wavs, _ = self.model.generate_voice_design(instruct=[ask["instruct"] for ask in asks], **common)
            else:
                items = [self.clone_prompt(ask) for ask in asks]
                wavs, _ = self.model.generate_voice_clone(voice_clone_prompt=items, **common)
        self.trace.wavs = wavs
        return self.trace

    def clone_prompt(self, ask: dict[str, Any]) -> Any:
        audio = tiny_qwen3.reference_audio(ask["ref_samples"])
        return self.model.create_voice_clone_prompt(
            (audio, SAMPLE_RATE), ref_text=ask["ref_text"], x_vector_only_mode=ask["x_vector_only_mode"]
        )[0]


@contextmanager
def recorded_scores(into: list[torch.Tensor]) -> Iterator[None]:
    """Record what the talker's logits processors return."""
    original = transformers.LogitsProcessorList.__call__

    def call(self: Any, input_ids: torch.Tensor, scores: torch.Tensor, **rest: Any) -> torch.Tensor:
        processed = original(self, input_ids, scores, **rest)
        if processed.shape[-1] > CODES:
            into.append(processed.clone())
        return processed

    transformers.LogitsProcessorList.__call__ = call
    try:
        yield
    finally:
        transformers.LogitsProcessorList.__call__ = original


# ---------------------------------------------------------------------------------------------------------------- talk
def margins(trace: Trace, row: int) -> tuple[float, float]:
    """Least top-1 to top-2 distance of the choices that count: talker, predictor."""
    frames = len(trace.codes[row])
    draws = min(frames + 1, len(trace.scores))
    best = torch.stack(trace.scores[:draws])[:, row].topk(2).values
    rows = torch.stack(trace.predictor)[: frames * (GROUPS - 1), row].topk(2).values
    return float((best[:, 0] - best[:, 1]).min()), float((rows[:, 0] - rows[:, 1]).min())


def row_arrays(trace: Trace, row: int) -> dict[str, np.ndarray]:
    """The golden arrays of one row of a call."""
    frames = len(trace.codes[row])
    draws = min(frames + 1, len(trace.talker))
    talker = torch.stack(trace.talker)[:draws, row]
    predictor = torch.stack(trace.predictor)[: frames * (GROUPS - 1), row]
    return {
        "codes": trace.codes[row].numpy().astype(np.int16),
        "talker_logits": talker[:, COLUMNS].numpy(),
        "predictor_logits": predictor.reshape(frames, GROUPS - 1, CODES).numpy(),
    }


def fits(case: Case, trace: Trace) -> bool:
    """Whether this text makes a good golden: no near-tie, varied codes, the length asked for."""
    codes = trace.codes[0]
    if min(margins(trace, 0)) < MARGIN:
        return False
    if case.hasty and max(int(row[0].argmax()) for row in trace.talker[:2]) != EOS:
        return False
    if case.ends:
        return 2 <= len(codes) < case.frames
    return len(codes) == case.frames and len(torch.unique(codes[:, 0])) >= 12


def single(name: str, case: Case, upstream: Upstream, out: Path) -> dict[str, Any]:
    turn = list(CASES).index(name) % len(case.pool)  # begin elsewhere in the pool each time, for variety
    for text in case.pool[turn:] + case.pool[:turn]:
        trace = upstream.speak([text], [case])
        if fits(case, trace):
            break
    else:
        raise SystemExit(f"{name}: no text of its pool will do, add some")
    assert trace.prompt is not None
    assert trace.trailing is not None
    wav = trace.wavs[0]
    arrays = row_arrays(trace, 0) | {
        "talker_row0": trace.talker[0][0].numpy(),
        "prompt": trace.prompt[0].numpy(),
        "trailing": trace.trailing[0].numpy(),
        "wav_ends": np.concatenate([wav[:256], wav[-256:]]),
    }
    if case.codes_only:
        arrays = {"codes": arrays["codes"]}
    np.savez_compressed(out / f"{name}.npz", **arrays)
    talker, predictor = margins(trace, 0)
    return {
        "checkpoint": checkpoint_name(case.tiny),
        "text": text,
        "ask": case.ask,
        "non_streaming": case.non_streaming,
        "max_new_tokens": case.frames + 1,
        "frames": len(trace.codes[0]),
        "ends": case.ends,
        "wav_samples": len(wav),
        "distinct_c0": len(torch.unique(trace.codes[0][:, 0])),
        "margin_talker": round(talker, 5),
        "margin_predictor": round(predictor, 5),
        "upstream_ms_per_frame": round(1000 * trace.seconds / len(trace.codes[0]), 1),
    }


def batch(name: str, rows: Batch, upstream: Upstream, singles: dict[str, Any], out: Path) -> dict[str, Any]:
    cases = [CASES[row] for row in rows.rows]
    trace = upstream.speak([singles[row]["text"] for row in rows.rows], cases)
    arrays: dict[str, np.ndarray] = {}
    apart = 0.0
    for i, row in enumerate(rows.rows):
        mine = row_arrays(trace, i)
        with np.load(out / f"{row}.npz") as alone:
            assert (mine["codes"] == alone["codes"]).all(), f"{name}: upstream's batch differs from {row}"
            apart = max(apart, *(float(abs(mine[k] - alone[k]).max()) for k in ("talker_logits", "predictor_logits")))
        keep = sorted({0, len(mine["codes"]) // 2, len(mine["codes"]) - 1})
        arrays |= {
            f"{i}/codes": mine["codes"],
            f"{i}/talker_logits": mine["talker_logits"],
            f"{i}/predictor_frames": np.array(keep),
            f"{i}/predictor_logits": mine["predictor_logits"][keep],
        }
    np.savez_compressed(out / f"{name}.npz", **arrays)
    return {
        "checkpoint": checkpoint_name(rows.tiny),
        "rows": rows.rows,
        "non_streaming": cases[0].non_streaming,
        "max_apart_from_singles": float(f"{apart:.1e}"),
        "upstream_ms_per_frame": round(1000 * trace.seconds / max(map(len, trace.codes)), 1),
    }


def checkpoint_name(tiny: Tiny) -> str:
    size = "" if tiny.size == Tiny.size else f"_{tiny.size}"
    gain = "" if tiny.eos_gain == Tiny.eos_gain else f"_eos{tiny.eos_gain}"
    return f"{tiny.kind}_{tiny.predictor}{size}{gain}"


def talk(out: Path) -> dict[str, Any]:
    checkpoints, cases = {}, {}
    for tiny in dict.fromkeys(case.tiny for case in CASES.values()):
        upstream = Upstream(tiny)
        checkpoints[checkpoint_name(tiny)] = {"recipe": tiny_qwen3.recipe(tiny), "fingerprint": upstream.fingerprint}
        mine = {name: case for name, case in CASES.items() if case.tiny == tiny}
        for name, case in mine.items():
            cases[name] = single(name, case, upstream, out)
            print(name, cases[name])
        for name, rows in BATCHES.items():
            if rows.tiny == tiny:
                cases[name] = batch(name, rows, upstream, cases, out)
                print(name, cases[name])
    return {"checkpoints": checkpoints, "cases": cases}


# --------------------------------------------------------------------------------------------------------------- codec
@contextmanager
def exact_norms() -> Iterator[None]:
    """Upstream's RMSNorm computes in fp32 even inside an fp64 model; let it stay in fp64."""
    norm = upstream_codec.Qwen3TTSTokenizerV2DecoderRMSNorm
    original = norm.forward

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))

    norm.forward = forward
    try:
        yield
    finally:
        norm.forward = original


LONG_FRAMES = [0, 1, 24, 25, 299, 300, 301, 328, 329]  # frames of the long case that are kept
MIDDLE_STRIDE, EXACT_STRIDE = 7, 3  # of these cases one sample in this many is kept


@torch.no_grad()
def codec(out: Path) -> dict[str, Any]:
    """One-pass decodes of random codes; `tiny.qwen3_tts.random_codes(n_frames, seed=n_frames)` re-makes the codes."""
    decoder = Upstream(CV).model.model.speech_tokenizer.model.decoder

    def one_pass(n_frames: int) -> np.ndarray:
        codes = torch.from_numpy(tiny_qwen3.random_codes(n_frames, seed=n_frames)).T[None]  # [1, GROUPS, F]
        return decoder(codes)[0, 0].numpy()

    short32, long32 = one_pass(12), one_pass(330)
    decoder.double()
    short, middle, long = one_pass(12), one_pass(40), one_pass(330)
    with exact_norms():
        exact = one_pass(12)
    arrays = {
        "short_32": short32,
        "short_64": short,
        "short_64_exact": exact[::EXACT_STRIDE],
        "middle_64": middle[::MIDDLE_STRIDE],
        "long_64": long.reshape(-1, HOP)[LONG_FRAMES],
    }
    np.savez_compressed(out / "codec.npz", **arrays)
    return {
        "checkpoint": checkpoint_name(CV),
        "short_frames": 12,
        "exact_stride": EXACT_STRIDE,
        "middle_frames": 40,
        "middle_stride": MIDDLE_STRIDE,
        "long_frames": 330,
        "long_kept_frames": LONG_FRAMES,
        "wav_std": round(float(long.std()), 4),
        "wav_peak": round(float(abs(long).max()), 4),
        "fp32_apart_from_fp64": float(f"{abs(long32 - long).max():.1e}"),
        "fp64_apart_from_exact": float(f"{abs(short - exact).max():.1e}"),
    }


# ----------------------------------------------------------------------------------------------------------- reference
REFERENCE_SAMPLES = (48_000, 30_000, 12_345)  # the first is a whole number of frames


def quantizer_margin(codec_model: Any, latent: torch.Tensor) -> float:
    """Least distance between the nearest and the second nearest code, over all kept books; latent is [1, hidden, F]."""
    least = math.inf
    quantizer = codec_model.encoder.quantizer
    parts = (
        (quantizer.semantic_residual_vector_quantizer, 1),
        (quantizer.acoustic_residual_vector_quantizer, GROUPS - 1),
    )
    for part, books in parts:
        residual = part.input_proj(latent)[0].T.double()  # [F, dim]
        for layer in part.layers[:books]:
            table = layer.codebook.embed.double()
            nearest = torch.cdist(residual, table).topk(2, largest=False)
            least = min(least, float((nearest.values[:, 1] - nearest.values[:, 0]).min()))
            residual = residual - table[nearest.indices[:, 0]]
    return least


@torch.no_grad()
def reference(out: Path) -> dict[str, Any]:
    """Codes, speaker embedding and mel of synthetic references; `tiny.qwen3_tts.reference_audio(n)` makes the audio."""
    model = Upstream(BASE).model.model
    tokenizer = model.speech_tokenizer
    latents: list[torch.Tensor] = []
    tokenizer.model.encoder.downsample.register_forward_hook(lambda _m, _i, latent: latents.append(latent))
    mels: list[torch.Tensor] = []
    model.speaker_encoder.register_forward_pre_hook(lambda _m, inputs: mels.append(inputs[0]))
    arrays: dict[str, np.ndarray] = {}
    info: dict[str, Any] = {}
    for n_samples in REFERENCE_SAMPLES:
        audio = tiny_qwen3.reference_audio(n_samples)
        codes = tokenizer.encode(audio, sr=SAMPLE_RATE).audio_codes[0]
        arrays[f"{n_samples}/codes"] = codes.numpy().astype(np.int16)
        arrays[f"{n_samples}/latent"] = latents[-1][0].T.numpy()  # [F, hidden], before the quantizer
        arrays[f"{n_samples}/speaker"] = model.extract_speaker_embedding(audio, SAMPLE_RATE).numpy()
        info[str(n_samples)] = {
            "frames": len(codes),
            "quantizer_margin": float(f"{quantizer_margin(tokenizer.model, latents[-1]):.1e}"),
            "distinct_codes_per_book": [len(torch.unique(codes[:, book])) for book in range(GROUPS)],
            "mel_frames": mels[-1].shape[1],
        }
    arrays["mel"] = mels[-1][0].numpy()  # [T, 128], of the last
    audios = [tiny_qwen3.reference_audio(n) for n in REFERENCE_SAMPLES]
    together = tokenizer.encode(audios, sr=SAMPLE_RATE).audio_codes
    for n_samples, codes in zip(REFERENCE_SAMPLES, together, strict=True):
        same = (codes.numpy() == arrays[f"{n_samples}/codes"]).all(1)
        info[str(n_samples)]["frames_that_differ_when_upstream_batches"] = np.flatnonzero(~same).tolist()
    np.savez_compressed(out / "reference.npz", **arrays)
    return {"checkpoint": checkpoint_name(BASE), "references": info}


# ------------------------------------------------------------------------------------------------------------ sampling
def processors(upstream: Upstream, arguments: dict[str, Any]) -> tuple[Any, Any]:
    """The logits processors upstream itself builds for these arguments: the talker's and the predictor's."""
    built: dict[str, Any] = {}
    original = transformers.GenerationMixin._get_logits_processor

    def build(self: Any, *args: Any, **rest: Any) -> Any:
        built[type(self).__name__] = original(self, *args, **rest)
        return built[type(self).__name__]

    sub = {f"subtalker_{k}": v for k, v in arguments.items() if k != "repetition_penalty"}
    transformers.GenerationMixin._get_logits_processor = build
    try:
        case = CASES["cv_en_block"]
        upstream.speak(["Hi"], [case], do_sample=True, subtalker_dosample=True, max_new_tokens=3, **arguments, **sub)
    finally:
        transformers.GenerationMixin._get_logits_processor = original
    talker = built[upstream_talker.Qwen3TTSTalkerForConditionalGeneration.__name__]
    return talker, built[upstream_talker.Qwen3TTSTalkerCodePredictorModelForConditionalGeneration.__name__]


SUPPRESSED_LOGIT = 20.0  # above all others: forgetting to suppress would show


def sampling(out: Path) -> dict[str, Any]:
    """Processed probabilities of random logits after random histories."""
    torch.manual_seed(0)
    upstream = Upstream(CV)
    arrays: dict[str, np.ndarray] = {}
    for name, arguments in SAMPLING.items():
        talker, predictor = processors(upstream, arguments)
        ties = arguments.get("top_p", 1.0) == 1.0  # where top-k cuts; top-p sorts, and leaves the order of equals open
        for length in HISTORY_LENGTHS:
            at = f"{name}/{length}"
            logits = weights.uniform(f"logits/{at}", (3, len(COLUMNS)), -8.0, 8.0, seed=0)
            if ties:
                logits[2, :30] = np.sort(logits[2])[-10]
            logits[:, -1] = (6.0, 9.0, -1.0)  # end-of-speech: likely, certain, unlikely
            draws = weights.uniform(f"history/{at}", (3, length), 0, CODES, seed=0).astype(np.int64)
            whole = np.full((3, CODES + 1024), SUPPRESSED_LOGIT, np.float32)
            whole[:, COLUMNS] = logits
            scores = talker(torch.from_numpy(draws), torch.from_numpy(whole))
            probabilities = scores.softmax(-1).numpy()
            assert abs(probabilities[:, COLUMNS].sum(1) - 1).max() < 1e-5, "a suppressed id has probability"
            arrays |= {
                f"{at}/logits": logits,
                f"{at}/history": draws.astype(np.int16),
                f"{at}/probabilities": probabilities[:, COLUMNS],
            }
        logits = weights.uniform(f"logits/{name}/predictor", (3, CODES), -8.0, 8.0, seed=0)
        if ties:
            logits[2, :60] = np.sort(logits[2])[-10]
        scores = predictor(torch.zeros(3, 0, dtype=torch.long), torch.from_numpy(logits))
        arrays |= {f"{name}/predictor/logits": logits, f"{name}/predictor/probabilities": scores.softmax(-1).numpy()}
    np.savez_compressed(out / "sampling.npz", **arrays)
    defaults = {k: tiny_qwen3.GENERATION_CONFIG[k] for k in ("temperature", "top_k", "top_p", "repetition_penalty")}
    return {
        "sets": {name: defaults | arguments for name, arguments in SAMPLING.items()},
        "history_lengths": HISTORY_LENGTHS,
        "suppressed_logit": SUPPRESSED_LOGIT,
        "min_new_tokens": 2,
    }


# ---------------------------------------------------------------------------------------------------------------- main
PARTS = {"talk": talk, "codec": codec, "reference": reference, "sampling": sampling}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"what to re-make: {', '.join(PARTS)} (default: everything)")
    parser.add_argument("--out", type=Path, default=ROOT / "tests" / "golden" / "qwen3_tts")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    transformers.logging.set_verbosity_error()
    index_file = arguments.out / "index.json"
    index: dict[str, Any] = json.loads(index_file.read_text()) if index_file.exists() else {}
    index["made_with"] = {
        name: importlib.metadata.version(name) for name in ("qwen-tts", "transformers", "torch", "librosa")
    }
    index["talker_columns"] = {"codes": CODES, "eos": EOS}
    for part in arguments.parts or PARTS:
        made = PARTS[part](arguments.out)
        index |= made if part == "talk" else {part: made}
    index_file.write_text(json.dumps(index, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
