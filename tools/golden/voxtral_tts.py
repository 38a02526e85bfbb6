"""Select golden tensors of Voxtral-TTS from a folder of upstream's outputs, and check the encoder on it. See README.md.

usage: python tools/golden/voxtral_tts.py SOURCE [--out FOLDER]
"""

import argparse
import json
import lzma
import shutil
import tempfile
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).parents[2]
EVERY = 25  # of the samples of a waveform are kept
DROPPED = ("semantic_logits", "prompt_hidden", "reference_latent", "voice_rows")


def select(source: Path, out: Path) -> None:
    """Write the checkpoint without its encoder, and what upstream made of it."""
    out.mkdir(parents=True, exist_ok=True)
    checkpoint, cases = source / "checkpoint", json.loads((source / "cases.json").read_text())
    for name in ("params.json", "tekken.json"):
        (out / name).write_text(json.dumps(json.loads((checkpoint / name).read_text()), ensure_ascii=False))
    voices = {
        path.stem: torch.load(path, weights_only=True).view(torch.uint16).numpy()  # NumPy knows no bfloat16
        for path in sorted((checkpoint / "voice_embedding").glob("*.pt"))
    }
    np.savez_compressed(out / "voices.npz", **voices)
    weights = (checkpoint / "consolidated.safetensors").read_bytes()
    (out / "consolidated.safetensors.xz").write_bytes(lzma.compress(weights, preset=9))
    for case in cases["cases"]:
        arrays = dict(np.load(source / case["expected"]))
        kept = {name: array for name, array in arrays.items() if name not in DROPPED}
        np.savez_compressed(out / f"{case['name']}.npz", **kept | {"waveform": arrays["waveform"][::EVERY]})
    codec = dict(np.load(source / cases["codec_case"]["expected"]))
    np.savez_compressed(out / "codec.npz", **codec | {"waveform": codec["waveform"][::EVERY]})
    tokens = json.loads((source / cases["tokenizer_cases"]).read_text())
    index = {"every": EVERY, "steps": cases["steps"], "cases": cases["cases"], "tokens": tokens}
    (out / "index.json").write_text(json.dumps(index, ensure_ascii=False, indent=1))


def check_encoder(source: Path) -> None:
    """Compare codes and latents of the reference with upstream's: the encoder's weights are too large to commit."""
    from rhapsode.audio.decode import decode
    from rhapsode.audio.resample import mono
    from rhapsode.models.base import StageContext
    from rhapsode.models.registry import find
    from rhapsode.models.voxtral_tts import parts

    cases = json.loads((source / "cases.json").read_text())
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "full"
        shutil.copytree(source / "checkpoint", folder, copy_function=shutil.copyfile)
        folder.chmod(0o755)
        shutil.copyfile(source / cases["encoder"], folder / "encoder.safetensors")
        found = find(str(folder))
        encoder = parts.encoder(StageContext(found.spec, folder, found.config, "cpu", "float32"))
        for case in (one for one in cases["cases"] if "reference" in one):
            wanted = np.load(source / case["expected"])
            samples = mono(decode((source / case["reference"]).read_bytes()), found.spec.sample_rate)
            patch = encoder.config.pretransform_patch_size
            patches = np.pad(samples, (0, -len(samples) % patch)).reshape(-1, patch).T
            with torch.inference_mode():
                latents = encoder(torch.tensor(patches)[None])[0].T.numpy()
            wrong = int((encoder.encode(samples) != wanted["reference_codes"]).sum())
            apart = np.abs(latents - wanted["reference_latent"]).max()
            print(f"{case['name']}: {wrong} codes differ, latents by {apart:.1e}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "tests" / "golden" / "voxtral_tts")
    arguments = parser.parse_args()
    select(arguments.source, arguments.out)
    check_encoder(arguments.source)
