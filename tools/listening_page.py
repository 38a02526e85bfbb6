"""Samples of a model and a page to listen to them: fixed prompts and seeds, so that versions can be compared.

usage: python tools/listening_page.py [MODEL] [--out docs/listen]

The default voice speaks ten prompts, every other preset the first and the last of them.
"""

import argparse
import html
from pathlib import Path

import av

from rhapsode import TTS
from rhapsode.audio.clip import Audio
from rhapsode.audio.samples import pcm16
from rhapsode.bench.quality.prompts import SpokenPrompt, read_prompts
from rhapsode.config import DEFAULT_MODEL

CHOSEN = {"everyday": 2, "names": 1, "numbers": 2, "questions": 1, "exclamations": 1, "lists": 1, "long": 2}
BITS_PER_S = 32_000  # half of what the server sends: it stays in the repository for good
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Listen to {model}</title>
<style>
  body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 44rem; margin: 2rem auto; padding: 0 1rem }}
  audio {{ width: 100% }}
  small {{ color: #666 }}
</style>
<h1>{model}</h1>
<p>Synthetic speech, first takes: sample <i>n</i> has seed <i>n</i>.
Made by <code>python tools/listening_page.py {model}</code>.</p>
{samples}
</html>
"""
SAMPLE = """<p>{text} <small>{voice}, {kind}, {seconds:.1f} s</small><br>
<audio controls preload="none" src="{file}"></audio></p>"""


def chosen() -> list[SpokenPrompt]:
    """The first prompts of every kind."""
    prompts = read_prompts()
    return [one for kind, n in CHOSEN.items() for one in [p for p in prompts if p.kind == kind][:n]]


def save(audio: Audio, path: Path) -> None:
    frame = av.AudioFrame.from_ndarray(pcm16(audio.samples).reshape(1, -1), format="s16", layout="mono")
    frame.sample_rate = audio.sample_rate
    with av.open(str(path), "w", format="ogg") as file:
        stream = file.add_stream("libopus", rate=audio.sample_rate, layout="mono")
        stream.bit_rate = BITS_PER_S
        file.mux(stream.encode(frame))
        file.mux(stream.encode(None))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", nargs="?", default=DEFAULT_MODEL)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "listen")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    samples = []
    with TTS(args.model) as tts:
        first, *others = tts.engine.info.voices or ("",)
        ten = chosen()
        takes = [(first, one) for one in ten] + [(voice, one) for voice in others for one in (ten[0], ten[-1])]
        for seed, (voice, prompt) in enumerate(takes, start=1):
            audio = tts.speak(prompt.text, voice or None, seed=seed)
            path = args.out / f"{seed:02}-{voice}-{prompt.kind}.opus"
            save(audio, path)
            shown = {"text": html.escape(prompt.text), "kind": prompt.kind, "seconds": audio.duration_s, "voice": voice}
            samples.append(SAMPLE.format(file=path.name, **shown))
            print(f"{path}: {audio.duration_s:.1f} s, {path.stat().st_size} bytes")
    model = html.escape(Path(args.model).name)
    (args.out / "index.html").write_text(PAGE.format(model=model, samples="\n".join(samples)), encoding="utf-8")


if __name__ == "__main__":
    main()
