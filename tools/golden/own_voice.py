"""Have upstream qwen-tts speak greedily with the packaged voice; its codes become a golden. How to run it: README.md.

usage: python tools/golden/own_voice.py [--voice FOLDER] [--out FILE]
"""

import argparse
import hashlib
import importlib.metadata
import json
import re
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "tests"), str(ROOT / "src")]
import stubs  # noqa: E402

stubs.install()
warnings.filterwarnings("ignore")

import torch  # noqa: E402
import transformers  # noqa: E402
from qwen_tts import Qwen3TTSModel  # noqa: E402

from rhapsode.text.front_end import FrontEnd, TextSettings  # noqa: E402
from rhapsode.text.spoken import SpokenRun  # noqa: E402
from tiny.qwen3_tts import SAMPLE_RATE, reference_audio  # noqa: E402

MARGIN = 5e-4  # least distance between the best and the second best logit of any choice: rounding must not decide
MOST_FRAMES = 120
LAYOUTS = (("English", True), ("Auto", True), ("English", False), ("Auto", False))  # language, all of the text first
EACH = 2
REFERENCE_SAMPLES = 72_000
TEXTS = (
    "Hello there.",
    "The kettle is on the stove.",
    "Nobody saw the train leave.",
    "Would you open the window, please?",
    "It costs $12.50.",
    "We meet at 3:45 on Friday.",
    "Red, green, and blue!",
    "My sister lives near the harbor.",
    "He smiled and said nothing.",
    "What a lovely garden!",
)


class Upstream:
    """The loaded voice, and how close the closest choice of its last call was."""

    def __init__(self, folder: Path) -> None:
        self._model = Qwen3TTSModel.from_pretrained(str(folder), dtype=torch.float32, attn_implementation="eager")
        self.margin = float("inf")
        self._codes: list[torch.Tensor] = []
        generate, process = self._model.model.generate, transformers.LogitsProcessorList.__call__

        def watched_generate(*args: Any, **kwargs: Any) -> Any:
            result = generate(*args, **kwargs)
            self._codes = result[0]
            return result

        def watched_process(self_: Any, ids: torch.Tensor, scores: torch.Tensor, **rest: Any) -> torch.Tensor:
            processed = process(self_, ids, scores, **rest)
            best = processed.topk(2).values
            self.margin = min(self.margin, float((best[:, 0] - best[:, 1]).min()))
            return processed

        self._model.model.generate = watched_generate
        transformers.LogitsProcessorList.__call__ = watched_process

    def speak(self, text: str, speaker: str | None, language: str, non_streaming: bool) -> torch.Tensor:
        """Codes `[frames, codebooks]`. Without a speaker the voice is the reference's."""
        self.margin = float("inf")
        common = {
            "text": text,
            "language": language,
            "non_streaming_mode": non_streaming,
            "do_sample": False,
            "subtalker_dosample": False,
            "max_new_tokens": MOST_FRAMES,
        }
        if speaker is None:
            self._model.generate_voice_clone(voice_clone_prompt=[self._reference()], **common)
        else:
            self._model.generate_custom_voice(speaker=speaker, **common)
        return self._codes[0]

    def vector(self) -> list[list[float]]:
        """The reference's speaker vector, eight numbers in a row."""
        return [[round(value, 6) for value in row] for row in self._reference().ref_spk_embedding.view(-1, 8).tolist()]

    def _reference(self) -> Any:
        clip = (reference_audio(REFERENCE_SAMPLES), SAMPLE_RATE)
        return self._model.create_voice_clone_prompt(clip, x_vector_only_mode=True)[0]


def as_base(voice: Path, folder: Path) -> Path:
    """Writes the same checkpoint as a Base one: upstream clones with no other kind, and gives no other an encoder."""
    for path in voice.iterdir():
        (folder / path.name).symlink_to(path.resolve())
    config = json.loads((voice / "config.json").read_text("utf-8"))
    (folder / "config.json").unlink()
    (folder / "config.json").write_text(json.dumps(config | {"tts_model_type": "base"}), "utf-8")
    return folder


def written(voice: Path, text: str) -> str:
    """What the text front end makes of a text for this voice."""
    wants = json.loads((voice / "generation_config.json").read_text("utf-8"))
    front_end = FrontEnd(TextSettings(language="en", normalise=wants["normalise"], phonemes=wants["phonemes"]))
    return "".join(run.text for run in [*front_end.push(text), *front_end.close()] if isinstance(run, SpokenRun))


def cases(upstream: Upstream, voice: Path, speakers: list[str | None], each: int) -> list[dict[str, Any]]:
    """For each layout the first texts that end by themselves and hold no near-tie, by the speakers in turn."""
    found: list[dict[str, Any]] = []
    for turn, (language, non_streaming) in enumerate(LAYOUTS):
        first = len(found)
        for text in TEXTS[turn * EACH :] + TEXTS[: turn * EACH]:
            speaker, spoken = speakers[len(found) % len(speakers)], written(voice, text)
            codes = upstream.speak(spoken, speaker, language, non_streaming)
            if upstream.margin < MARGIN or len(codes) >= MOST_FRAMES - 1:
                print(f"passed over: {text} ({speaker}, {len(codes)} frames, margin {upstream.margin:.1e})", flush=True)
                continue
            asked = {"text": text, "spoken": spoken, "speaker": speaker, "language": language}
            margin = round(upstream.margin, 5)
            found.append({**asked, "non_streaming": non_streaming, "margin": margin, "codes": codes.tolist()})
            print(f"{len(codes)} frames, margin {margin}, {speaker}: {text}", flush=True)
            if len(found) == first + each:
                break
        else:
            raise SystemExit(f"{language}, {non_streaming}: no text of the pool will do, add some")
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--voice", type=Path, default=ROOT / "src" / "rhapsode" / "nano")
    parser.add_argument("--out", type=Path, default=ROOT / "tests" / "golden" / "own_voice.json")
    args = parser.parse_args()
    presets = list(json.loads((args.voice / "config.json").read_text("utf-8"))["talker_config"]["spk_id"])
    found = cases(Upstream(args.voice), args.voice, presets, EACH)
    with tempfile.TemporaryDirectory() as folder:
        cloning = Upstream(as_base(args.voice, Path(folder)))
        found += cases(cloning, args.voice, [None], 1)
        reference = {"samples": REFERENCE_SAMPLES, "vector": cloning.vector()}
    golden = {
        "upstream": f"qwen-tts {importlib.metadata.version('qwen-tts')}",
        "sha256": hashlib.sha256((args.voice / "model.safetensors").read_bytes()).hexdigest(),
        "reference": reference,
        "cases": found,
    }
    lines = json.dumps(golden, indent=1, ensure_ascii=False)
    rows = re.sub(r"\[\s+([^\[\]{}]+?)\s+\]", lambda row: f"[{' '.join(row[1].split())}]", lines)
    args.out.write_text(rows + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
