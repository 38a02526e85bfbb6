"""Run upstream voxcpm 2.0.3 on tiny checkpoints and write golden files. How to run it: README.md beside this file.

usage: python tools/golden/voxcpm2.py [--out FOLDER]
"""

import argparse
import importlib.metadata
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "tests")]
import stubs  # noqa: E402

stubs.install()
warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402
import soundfile  # noqa: E402
import torch  # noqa: E402
from voxcpm.model.voxcpm2 import LoRAConfig, VoxCPM2Model  # noqa: E402
from voxcpm2_cases import CASES, ENDLESS, Case  # noqa: E402

from tiny import voxcpm2 as tiny_vox  # noqa: E402
from tiny import weights  # noqa: E402
from tiny.voxcpm2 import FEAT, LORA_ALPHA, LORA_RANK, PATCH, SAMPLE_RATE, Tiny  # noqa: E402

FSQ_MARGIN, STOP_MARGIN = 1e-4, 1e-3
EVERY = 31
"""Of a waveform's samples, one in so many is kept."""


@dataclass
class Trace:
    """What one upstream call computed, patch by patch."""

    base: list[torch.Tensor] = field(default_factory=list)
    residual: list[torch.Tensor] = field(default_factory=list)
    stop: list[torch.Tensor] = field(default_factory=list)
    patches: list[torch.Tensor] = field(default_factory=list)
    quantized: list[torch.Tensor] = field(default_factory=list)

    def margins(self) -> tuple[float, float]:
        """How far the quantizer and the stop test are from another choice."""
        scaled = torch.cat([x.flatten() for x in self.quantized]).tanh() * 9
        stop = torch.cat(self.stop)
        return float((scaled - scaled.floor() - 0.5).abs().min()), float((stop[:, 1] - stop[:, 0]).abs().min())


class Upstream:
    """One checkpoint, loaded by upstream, with its computations recorded."""

    def __init__(self, tiny: Tiny, lora: bool, folder: Path) -> None:
        self.folder = folder
        self.fingerprint = tiny_vox.write(folder, tiny)
        settings = None
        if lora:
            tiny_vox.write_lora(folder / "lora", tiny)
            settings = LoRAConfig(enable_lm=True, enable_dit=True, enable_proj=True, r=LORA_RANK, alpha=LORA_ALPHA)
        self.model = VoxCPM2Model.from_local(str(folder), optimize=False, device="cpu", lora_config=settings)
        if lora:
            loaded, skipped = self.model.load_lora_weights(str(folder / "lora"))
            assert loaded
            assert not skipped
        self.trace = Trace()
        record = self._record
        self.model.lm_to_dit_proj.register_forward_hook(lambda m, x, y: record("base", x[0]))
        self.model.res_to_dit_proj.register_forward_hook(lambda m, x, y: record("residual", x[0]))
        self.model.stop_head.register_forward_hook(lambda m, x, y: record("stop", y))
        self.model.feat_decoder.register_forward_hook(lambda m, x, y: record("patches", y.transpose(1, 2)))
        self.model.fsq_layer.in_proj.register_forward_hook(lambda m, x, y: record("quantized", y))

    def _record(self, name: str, value: torch.Tensor) -> None:
        getattr(self.trace, name).append(value.detach().clone())

    def clip(self, samples: int, rate: int, seed: int = 0) -> str:
        path = self.folder / f"{samples}_{rate}_{seed}.wav"
        soundfile.write(path, tiny_vox.reference_audio(samples, seed), rate, subtype="FLOAT")
        return str(path)

    def speak(self, case: Case, text: str, noise: np.ndarray) -> np.ndarray:
        self.trace = Trace()
        clips: dict[str, Any] = {}
        if case.reference:
            clips["reference_wav_path"] = self.clip(case.reference, case.rate)
        if case.prompt:
            clips["prompt_wav_path"] = self.clip(case.prompt, case.rate, case.prompt_seed)
            clips["prompt_text"] = case.prompt_text
        with given_noise(noise):
            audio = self.model.generate(target_text=text, max_len=case.patches, **clips, **case.ask)
        return audio[0].numpy()


@contextmanager
def given_noise(noise: np.ndarray) -> Iterator[None]:
    """Patches begin as these, one after the other."""
    original, coming = torch.randn, iter(torch.from_numpy(noise))

    def randn(*size: Any, **rest: Any) -> torch.Tensor:
        assert tuple(size[0]) == (1, *noise.shape[1:])
        return next(coming)[None].clone()

    torch.randn = randn
    try:
        yield
    finally:
        torch.randn = original


def first_clear(upstream: Upstream, case: Case) -> tuple[str, int, np.ndarray, dict[str, float]]:
    """The first text of the pool without a near-tie, and its waveform."""
    for text in case.pool:
        for seed in range(4):
            audio = upstream.speak(case, case.before + text, tiny_vox.noise(case.patches, seed, case.tiny))
            fsq, stop = upstream.trace.margins()
            ended = len(upstream.trace.patches) < case.patches
            if fsq > FSQ_MARGIN and stop > STOP_MARGIN and ended == case.ends:
                return text, seed, audio, {"fsq": fsq, "stop": stop}
    raise SystemExit("every text of the pool comes near a tie")


def talk(out: Path, index: dict[str, Any]) -> None:
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as temporary:
            upstream = Upstream(case.tiny, case.lora, Path(temporary))
            started = time.perf_counter()
            text, seed, audio, margins = first_clear(upstream, case)
            took = time.perf_counter() - started
            trace = upstream.trace
            tokens = upstream.model.text_tokenizer(case.prompt_text + case.before + text)
        stacked = {
            "base": torch.cat(trace.base),
            "residual": torch.cat(trace.residual),
            "stop": torch.cat(trace.stop),
            "patches": torch.cat(trace.patches),
        }
        arrays = {key: value.numpy() for key, value in stacked.items()} | {"wav": audio[::EVERY]}
        np.savez_compressed(out / f"{name}.npz", **arrays)
        case_facts = {key: value for key, value in asdict(case).items() if key not in ("pool", "tiny")}
        index["cases"][name] = case_facts | {
            "recipe": asdict(case.tiny),
            "fingerprint": upstream.fingerprint,
            "text": case.before + text,
            "tokens": tokens,
            "noise_seed": seed,
            "wav_samples": len(audio),
            "margins": margins,
        }
        print(f"{name}: {len(trace.patches)} patches, {took:.1f} s, margins {margins}, std {audio.std():.3f}")


def vae(out: Path) -> None:
    """The VAE alone: upstream in float64, and what its encoder makes of clips."""
    with tempfile.TemporaryDirectory() as temporary:
        model = Upstream(ENDLESS, False, Path(temporary)).model
        arrays: dict[str, np.ndarray] = {}
        for samples in (2_560, 20_480):
            clip = torch.from_numpy(tiny_vox.reference_audio(samples))[None]
            arrays[f"latents_{samples}"] = model.audio_vae.encode(clip, SAMPLE_RATE)[0].T.detach().numpy()
        latents = torch.from_numpy(weights.spread("latents", (1, FEAT, 6 * PATCH), 1.0, 0))
        arrays["decoded_32"] = model.audio_vae.decode(latents)[0, 0, ::EVERY].detach().numpy()
        arrays["decoded_64"] = model.audio_vae.double().decode(latents.double())[0, 0, ::EVERY].detach().numpy()
    np.savez_compressed(out / "vae.npz", **arrays)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "tests" / "golden" / "voxcpm2")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    version = importlib.metadata.version("voxcpm")
    index: dict[str, Any] = {"upstream": f"voxcpm {version}", "torch": torch.__version__, "every": EVERY, "cases": {}}
    with torch.inference_mode():
        talk(out, index)
        vae(out)
    (out / "index.json").write_text(json.dumps(index, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
