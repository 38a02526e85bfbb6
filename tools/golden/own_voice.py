"""Have upstream qwen-tts speak greedily with the packaged voice; its codes become a golden. How to run it: README.md.

usage: python tools/golden/own_voice.py [--voice FOLDER] [--out FILE]
"""

import argparse
import hashlib
import importlib.metadata
import json
import sys
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(Path(__file__).parent))
import stubs  # noqa: E402

stubs.install()
warnings.filterwarnings("ignore")

import torch  # noqa: E402
import transformers  # noqa: E402
from qwen_tts import Qwen3TTSModel  # noqa: E402

MARGIN = 5e-4  # least distance between the best and the second best logit of any choice: rounding must not decide
MOST_FRAMES = 120
LAYOUTS = (("English", True), ("Auto", True), ("English", False), ("Auto", False))  # language, all of the text first
EACH = 2
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

    def speak(self, text: str, speaker: str, language: str, non_streaming: bool) -> torch.Tensor:
        """Codes `[frames, codebooks]`."""
        self.margin = float("inf")
        self._model.generate_custom_voice(
            text=text,
            speaker=speaker,
            language=language,
            non_streaming_mode=non_streaming,
            do_sample=False,
            subtalker_dosample=False,
            max_new_tokens=MOST_FRAMES,
        )
        return self._codes[0]


def cases(upstream: Upstream, speaker: str) -> list[dict[str, Any]]:
    """For each layout the first texts that end by themselves and hold no near-tie."""
    found: list[dict[str, Any]] = []
    for turn, (language, non_streaming) in enumerate(LAYOUTS):
        first = len(found)
        for text in TEXTS[turn * EACH :] + TEXTS[: turn * EACH]:
            codes = upstream.speak(text, speaker, language, non_streaming)
            if upstream.margin < MARGIN or len(codes) >= MOST_FRAMES - 1:
                print(f"passed over: {text} ({len(codes)} frames, margin {upstream.margin:.1e})")
                continue
            asked = {"text": text, "speaker": speaker, "language": language, "non_streaming": non_streaming}
            found.append({**asked, "margin": round(upstream.margin, 5), "codes": codes.tolist()})
            if len(found) == first + EACH:
                break
        else:
            raise SystemExit(f"{language}, {non_streaming}: no text of the pool will do, add some")
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--voice", type=Path, default=ROOT / "src" / "rhapsode" / "nano")
    parser.add_argument("--out", type=Path, default=ROOT / "tests" / "golden" / "own_voice.json")
    args = parser.parse_args()
    speaker = next(iter(json.loads((args.voice / "config.json").read_text("utf-8"))["talker_config"]["spk_id"]))
    golden = {
        "upstream": f"qwen-tts {importlib.metadata.version('qwen-tts')}",
        "sha256": hashlib.sha256((args.voice / "model.safetensors").read_bytes()).hexdigest(),
        "cases": cases(Upstream(args.voice), speaker),
    }
    lines = json.dumps(golden, indent=1)
    args.out.write_text(lines.replace("\n     ", " ").replace("\n    ]", " ]") + "\n", encoding="utf-8")
    for case in golden["cases"]:
        print(f"{len(case['codes'])} frames, margin {case['margin']}: {case['text']}")


if __name__ == "__main__":
    main()
