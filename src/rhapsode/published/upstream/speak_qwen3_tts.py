"""Speaks with `qwen-tts`, greedily: `Qwen3TTSModel` and its `generate_...` methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adapter import Speak, UpstreamJob, UpstreamSpeech, run, stand_in


def open_model(job: UpstreamJob) -> Speak:
    stand_in("torchaudio", __version__="0")
    stand_in("torchaudio.compliance")
    stand_in("torchaudio.compliance.kaldi")
    stand_in("sox", Transformer=object)
    stand_in("onnxruntime", SessionOptions=object, InferenceSession=object)
    import torch
    from qwen_tts import Qwen3TTSModel

    model = Qwen3TTSModel.from_pretrained(
        job.checkpoint, dtype=torch.float32, device_map=job.device, attn_implementation="eager"
    )
    codes: list[Any] = []
    generate = model.model.generate

    def watched(*given: Any, **named: Any) -> Any:
        made = generate(*given, **named)
        codes[:] = made[0]
        return made

    model.model.generate = watched

    def speak(item: Mapping[str, Any]) -> UpstreamSpeech:
        # The last draw never becomes a frame.
        greedy = {"do_sample": False, "subtalker_dosample": False, "max_new_tokens": job.frames + 1}
        common = {"text": item["text"], "language": item.get("language") or "Auto", **greedy}
        if item["mode"] == "design":
            waves, rate = model.generate_voice_design(instruct=item["description"], **common)
        elif item["mode"] == "clone":
            waves, rate = model.generate_voice_clone(ref_audio=item["reference"], x_vector_only_mode=True, **common)
        else:
            waves, rate = model.generate_custom_voice(speaker=item["voice"], **common)
        return UpstreamSpeech(waves[0], rate, codes[0].cpu().numpy())

    return speak


run(open_model, "qwen-tts")
