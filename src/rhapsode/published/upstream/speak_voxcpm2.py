"""Speaks with `voxcpm`, without chance: every patch starts from zeros in place of noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from adapter import Speak, UpstreamJob, UpstreamSpeech, run, stand_in


def open_model(job: UpstreamJob) -> Speak:
    stand_in("torchaudio", __version__="0")
    stand_in("torchaudio.compliance")
    stand_in("torchaudio.compliance.kaldi")
    import torch
    from voxcpm.model.voxcpm2 import VoxCPM2Model

    model = VoxCPM2Model.from_local(job.checkpoint, optimize=False, device=job.device)
    patches: list[Any] = []
    model.feat_decoder.register_forward_hook(lambda module, given, made: patches.append(made.transpose(1, 2)[0]))

    def speak(item: Mapping[str, Any]) -> UpstreamSpeech:
        patches.clear()
        clips = {"reference_wav_path": item["reference"]} if item["mode"] == "clone" else {}
        text = f"({item['description']}){item['text']}" if item["mode"] == "design" else item["text"]
        with _no_noise(torch):
            audio = model.generate(target_text=text, max_len=job.frames, **clips)
        frames = torch.stack(patches).float().cpu().numpy()
        return UpstreamSpeech(audio[0].float().cpu().numpy(), model.sample_rate, frames)

    return speak


@contextmanager
def _no_noise(torch: Any) -> Iterator[None]:
    draw = torch.randn
    torch.randn = torch.zeros
    try:
        yield
    finally:
        torch.randn = draw


run(open_model, "voxcpm")
