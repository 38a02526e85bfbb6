"""Makes the checkpoints in `tests/golden/wav2vec2`, and what transformers computes with them.

    pip install torch==2.13.0 transformers==5.22.2 && python tools/golden/wav2vec2.py

Two tiny Wav2Vec2ForCTC with random weights: `group` is like wav2vec2-base, `layer` like wav2vec2-large-xlsr-53.
"""

import json
from pathlib import Path

import numpy as np
import torch
from transformers import Wav2Vec2Config, Wav2Vec2FeatureExtractor, Wav2Vec2ForCTC

FOLDER = Path(__file__).parents[2] / "tests/golden/wav2vec2"
LETTERS = "abcdefghijklmnopqrstuvwxyzäöüß'"
VOCABULARY = ["<pad>", "<s>", "</s>", "<unk>", "|", *LETTERS]
SIZES = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "conv_dim": [6] * 7,
    "num_conv_pos_embeddings": 6,
    "num_conv_pos_embedding_groups": 2,
    "pad_token_id": 0,
}
KINDS = {
    "group": {"feat_extract_norm": "group", "conv_bias": False, "do_stable_layer_norm": False},
    "layer": {"feat_extract_norm": "layer", "conv_bias": True, "do_stable_layer_norm": True},
}


def main() -> None:
    audio = (np.random.default_rng(0).standard_normal(8000) * 0.1).astype(np.float32)
    for name, kind in KINDS.items():
        torch.manual_seed(1)
        model = Wav2Vec2ForCTC(Wav2Vec2Config(**SIZES, **kind)).eval()
        for parameter in model.parameters():
            parameter.data = (parameter.data + 0.3 * torch.randn_like(parameter)).half().float()
        folder = FOLDER / name
        extractor = Wav2Vec2FeatureExtractor(do_normalize=True)
        values = extractor(audio, sampling_rate=16_000, return_tensors="pt").input_values
        with torch.no_grad():
            logits = model(values).logits[0].numpy()
        folder.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(folder / "expected.npz", logits=logits)
        config = {"model_type": "wav2vec2", "architectures": ["Wav2Vec2ForCTC"], **SIZES, **kind}
        if name == "group":
            model.half().save_pretrained(folder)
        else:  # older checkpoints
            torch.save({key: value.half() for key, value in model.state_dict().items()}, folder / "pytorch_model.bin")
        (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", "utf-8")
        vocabulary = {token: index for index, token in enumerate(VOCABULARY)}
        (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False) + "\n", "utf-8")
        (folder / "preprocessor_config.json").write_text('{"do_normalize": true, "sampling_rate": 16000}\n', "utf-8")


if __name__ == "__main__":
    main()
