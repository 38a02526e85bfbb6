"""Write a tiny random Qwen3-TTS checkpoint: `python tools/golden/tiny_qwen3_tts.py FOLDER --kind base`.

The recipe itself is `tests/tiny/qwen3_tts.py`, so that tests make the same checkpoint without this tool.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from tiny import qwen3_tts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kind", choices=("base", "custom_voice", "voice_design"), default="custom_voice")
    parser.add_argument(
        "--predictor", choices=("same", "proj"), default="proj", help="predictor width against the talker's"
    )
    parser.add_argument(
        "--size", default="1b7", help="tts_model_size; 0b6 makes upstream ignore instruct for custom voices"
    )
    parser.add_argument("--eos-gain", type=float, default=qwen3_tts.Tiny.eos_gain)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shards", type=int, default=1, help="more than 1: sharded safetensors with an index")
    a = parser.parse_args()
    tiny = qwen3_tts.Tiny(a.kind, a.predictor, a.size, a.eos_gain, a.seed)
    print(a.folder, qwen3_tts.write(a.folder, tiny, a.shards))


if __name__ == "__main__":
    main()
