"""Makes the golden tensors of the Higgs codec with upstream's implementation in transformers. See README.md.

usage: python tools/golden/higgs_codec.py [--out FOLDER]
"""

import argparse
import sys
import tempfile
import types
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from tiny import higgs_codec as tiny  # noqa: E402

FRAMES, PERTURBED = 34, 16
EVERY = 5  # of the samples in float64 are kept
LENGTHS = (24_000, 19_300, 24_500, 27_600, 15_001)  # none is padded, or some, by the rest of a division by the hop
LEAST_MARGIN = 1e-3  # between the nearest and the next vector of a codebook, squared


def upstream(folder: Path):
    """Opens the checkpoint. Of torchaudio only `resample` is used, which needs none of its compiled code."""
    stand_in = types.ModuleType("torchaudio._extension")
    stand_in.__dict__.update(_IS_TORCHAUDIO_EXT_AVAILABLE=False, fail_if_no_align=lambda function: function)
    sys.modules["torchaudio._extension"] = stand_in
    from transformers import HiggsAudioV2TokenizerModel

    model, report = HiggsAudioV2TokenizerModel.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"], report
    assert not report["unexpected_keys"], report
    return model.eval()


def decoded(model, codes: np.ndarray) -> np.ndarray:
    return model.decode(torch.from_numpy(codes.T)[None]).audio_values[0, 0].numpy()


def decoder_arrays(model) -> dict[str, np.ndarray]:
    codes = tiny.frames(FRAMES)
    waveform = decoded(model, codes)
    model = model.double()
    exact = decoded(model, codes)
    other = codes.copy()
    other[PERTURBED] = (other[PERTURBED] + 5) % tiny.TinyCodec().codes
    changed = np.flatnonzero(decoded(model, other) != exact)
    model.float()
    assert 0.1 < np.abs(waveform).max() < 3, np.abs(waveform).max()
    return {
        "waveform": waveform,
        "exact": exact[::EVERY],
        "perturbed_frame": np.array(PERTURBED),
        "changed_samples": changed[[0, -1]],
    }


def encoder_arrays(model) -> dict[str, np.ndarray]:
    found = {}
    for length in LENGTHS:
        kept: dict[str, torch.Tensor] = {}
        hooks = [
            model.fc.register_forward_hook(lambda _, __, out, kept=kept: kept.update(latent=out[0])),
            model.encoder_semantic.register_forward_pre_hook(
                lambda _, inputs, kept=kept: kept.update(semantic=inputs[0][0].T)
            ),
        ]
        audio = torch.from_numpy(tiny.recording(length))[None, None]
        codes = model.encode(audio).audio_codes[0].T.numpy()
        for hook in hooks:
            hook.remove()
        print(length, codes.shape, "closest decision:", margin(model, kept["latent"]))
        assert margin(model, kept["latent"]) > LEAST_MARGIN
        found |= {f"{length}/codes": codes.astype(np.int16)}
        found |= {f"{length}/{name}": tensor.numpy() for name, tensor in kept.items()}
    return found


def margin(model, latent: torch.Tensor) -> float:
    """How much further away the second nearest vector is, at least."""
    rest, least = latent, float("inf")
    for book in model.quantizer.quantizers:
        distance = torch.cdist(book.project_in(rest), book.codebook.embed).square()
        first, second = distance.topk(2, largest=False).values.T
        least = min(least, float((second - first).min()))
        rest = rest - book.project_out(book.codebook.embed[distance.argmin(1)])
    return least


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "tests" / "golden" / "higgs")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        fingerprint = tiny.write(Path(folder))
        model = upstream(Path(folder))
        arrays = decoder_arrays(model) | encoder_arrays(model)
    np.savez_compressed(out / "codec.npz", fingerprint=np.array(fingerprint), **arrays)


if __name__ == "__main__":
    main()
