"""Tiny random CosyVoice3 checkpoints in the published layout: the values are made with NumPy from seeds."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from tiny import qwen_tokenizer, weights

SAMPLE_RATE = 24_000
CODES, SPECIAL, MELS, EMBEDDING = 40, 200, 80, 12
CHUNK, RATE = 4, 2
HIDDEN, FFN, LAYERS, HEADS, KV_HEADS = 32, 48, 2, 4, 2
DIM, DEPTH, FLOW_HEADS, DIM_HEAD, FF_MULT, LOOKAHEAD_CHANNELS = 32, 1, 2, 16, 2, 24
BASE, F0_CHANNELS = 16, 12
MIX = (2, 3)
HOP = 960
"""Samples of a speech token."""
WORDS = (
    "You", " are", " a", " helpful", " assistant", "Hello", " there", "One", " two", " three", " four", " five",
    "Good", " morning", " to", " you", " all", "Yes", " it", " is", " the", " ref", "the", "ing", " voice", " speak",
)  # fmt: skip

YAML = f"""\
__set_seed1: !apply:random.seed [1986]
sample_rate: {SAMPLE_RATE}
llm_input_size: {HIDDEN}
llm_output_size: {HIDDEN}
spk_embed_dim: {EMBEDDING}
qwen_pretrain_path: ''
token_frame_rate: 25
token_mel_ratio: {RATE}
chunk_size: {CHUNK}
num_decoding_left_chunks: -1
llm: !new:cosyvoice.llm.llm.CosyVoice3LM
    llm_input_size: !ref <llm_input_size>
    llm_output_size: !ref <llm_output_size>
    speech_token_size: {CODES}
    mix_ratio: {list(MIX)}
    llm: !new:cosyvoice.llm.llm.Qwen2Encoder
        pretrain_path: !ref <qwen_pretrain_path>
    sampling: !name:cosyvoice.utils.common.ras_sampling
        top_p: 0.8
        top_k: 25
        win_size: 10
        tau_r: 0.1
flow: !new:cosyvoice.flow.flow.CausalMaskedDiffWithDiT
    input_size: {MELS}
    output_size: {MELS}
    spk_embed_dim: !ref <spk_embed_dim>
    vocab_size: {CODES}
    input_frame_rate: !ref <token_frame_rate>
    token_mel_ratio: !ref <token_mel_ratio>
    pre_lookahead_len: 3
    pre_lookahead_layer: !new:cosyvoice.transformer.upsample_encoder.PreLookaheadLayer
        in_channels: {MELS}
        channels: {LOOKAHEAD_CHANNELS}
        pre_lookahead_len: 3
    decoder: !new:cosyvoice.flow.flow_matching.CausalConditionalCFM
        in_channels: 240
        n_spks: 1
        spk_emb_dim: {MELS}
        cfm_params: !new:omegaconf.DictConfig
            content:
                sigma_min: 1e-06
                solver: 'euler'
                t_scheduler: 'cosine'
                training_cfg_rate: 0.2
                inference_cfg_rate: 0.7
                reg_loss_type: 'l1'
        estimator: !new:cosyvoice.flow.DiT.dit.DiT
            dim: {DIM}
            depth: {DEPTH}
            heads: {FLOW_HEADS}
            dim_head: {DIM_HEAD}
            ff_mult: {FF_MULT}
            mel_dim: {MELS}
            mu_dim: {MELS}
            spk_dim: {MELS}
            out_channels: {MELS}
            static_chunk_size: !ref <chunk_size> * <token_mel_ratio>
            num_decoding_left_chunks: !ref <num_decoding_left_chunks>
hift: !new:cosyvoice.hifigan.generator.CausalHiFTGenerator
    in_channels: {MELS}
    base_channels: {BASE}
    nb_harmonics: 8
    sampling_rate: !ref <sample_rate>
    nsf_alpha: 0.1
    nsf_sigma: 0.003
    nsf_voiced_threshold: 10
    upsample_rates: [8, 5, 3]
    upsample_kernel_sizes: [16, 11, 7]
    istft_params:
        n_fft: 16
        hop_len: 4
    resblock_kernel_sizes: [3]
    resblock_dilation_sizes: [[1, 3]]
    source_resblock_kernel_sizes: [7, 3, 5]
    source_resblock_dilation_sizes: [[1], [3], [1]]
    lrelu_slope: 0.1
    audio_limit: 0.99
    conv_pre_look_right: 4
    f0_predictor: !new:cosyvoice.hifigan.f0_predictor.CausalConvRNNF0Predictor
        num_class: 1
        in_channels: {MELS}
        cond_channels: {F0_CHANNELS}
feat_extractor: !name:matcha.utils.audio.mel_spectrogram
    n_fft: 1920
    num_mels: {MELS}
    sampling_rate: !ref <sample_rate>
    hop_size: 480
    win_size: 1920
    fmin: 0
    fmax: null
    center: False
"""

Named = Iterator[tuple[str, np.ndarray]]


@dataclass(frozen=True)
class TinyCosyVoice:
    """The recipe of one checkpoint."""

    end_gain: float = 1.0
    """How far the logit of the end swings; 1.0 swings like that of a speech token."""
    seed: int = 0
    rl: bool = False
    """It has a second language model."""


def write(folder: Path, tiny: TinyCosyVoice | None = None) -> Path:
    """Writes a checkpoint with two preset speakers: `ada`, a vector, and `bob`, a stored reference."""
    tiny = tiny or TinyCosyVoice()
    qwen = folder / "CosyVoice-BlankEN"
    qwen.mkdir(parents=True, exist_ok=True)
    special = qwen_tokenizer.write(qwen, WORDS, qwen_tokenizer.SPECIALS[:3])
    vocabulary = max(special.values()) + 279 + 4
    sizes = {
        "hidden_size": HIDDEN, "intermediate_size": FFN, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "vocab_size": vocabulary, "rope_theta": 1e6,
        "rms_norm_eps": 1e-6, "hidden_act": "silu", "use_sliding_window": False, "max_position_embeddings": 32768,
    }  # fmt: skip
    (qwen / "config.json").write_text(json.dumps(sizes))
    (folder / "config.json").write_text("{}")
    (folder / "cosyvoice3.yaml").write_text(YAML)
    _save(folder / "llm.pt", llm_tensors(tiny, vocabulary))
    if tiny.rl:
        _save(folder / "llm.rl.pt", llm_tensors(TinyCosyVoice(tiny.end_gain, tiny.seed + 1), vocabulary))
    _save(folder / "flow.pt", flow_tensors(tiny.seed))
    _save(folder / "hift.pt", hift_tensors(tiny.seed))
    torch.save(_speakers(special["<|im_end|>"] + 1), folder / "spk2info.pt")
    return folder


def _save(file: Path, tensors: Named) -> None:
    torch.save({name: torch.from_numpy(tensor) for name, tensor in tensors}, file)


def _speakers(end_of_prompt: int) -> dict:
    """Words of the stored transcript are bytes: `the ref`."""
    tokens = torch.from_numpy(reference_tokens(9))[None].int()
    text = torch.tensor([[*b"You are a helpful assistant.", end_of_prompt, *b"the ref"]], dtype=torch.int32)
    mel = torch.from_numpy(weights.uniform("bob.mel", (1, RATE * 9, MELS), -8.0, -1.0, 0))
    ada, bob = (torch.from_numpy(speaker_embedding(i))[None] for i in range(2))
    stored = {"prompt_text": text, "llm_prompt_speech_token": tokens, "flow_prompt_speech_token": tokens}
    stored |= {"prompt_speech_feat": mel, "llm_embedding": bob, "flow_embedding": bob}
    return {"ada": {"embedding": ada}, "bob": stored}


def reference_tokens(count: int) -> np.ndarray:
    return weights.uniform("reference.tokens", (count,), 0, CODES - 0.01, 0).astype(np.int64)


def speaker_embedding(i: int) -> np.ndarray:
    return weights.spread(f"speaker{i}", (EMBEDDING,), 1.0, 0)


def reference_audio(samples: int, sample_rate: int = SAMPLE_RATE) -> np.ndarray:
    """A gliding tone with noise, by formula."""
    t = np.arange(samples) / sample_rate
    tone = 0.3 * np.sin(2 * np.pi * (200 + 400 * t) * t)
    return (tone + weights.spread("reference", (samples,), 0.02, 0)).astype(np.float32)


def _matrix(name: str, shape: tuple[int, ...], seed: int, gain: float = 1.0, bias: bool = False) -> Named:
    yield f"{name}.weight", weights.spread(f"{name}.weight", shape, gain / float(np.prod(shape[1:])) ** 0.5, seed)
    if bias:
        yield f"{name}.bias", weights.uniform(f"{name}.bias", (shape[0],), -0.1, 0.1, seed)


def llm_tensors(tiny: TinyCosyVoice, vocabulary: int) -> Named:
    """The language model; of the special speech tokens only the end has a logit that swings."""
    seed, at, head = tiny.seed, "llm.model.model", HIDDEN // HEADS
    words = weights.spread("words", (vocabulary, HIDDEN), 0.6, seed)
    yield f"{at}.embed_tokens.weight", words
    yield "llm.model.lm_head.weight", words
    for i in range(LAYERS):
        layer = f"{at}.layers.{i}"
        for part, size in (("q", HEADS * head), ("k", KV_HEADS * head), ("v", KV_HEADS * head)):
            yield from _matrix(f"{layer}.self_attn.{part}_proj", (size, HIDDEN), seed, 1.5, bias=True)
        yield from _matrix(f"{layer}.self_attn.o_proj", (HIDDEN, HEADS * head), seed)
        for part, shape in (("gate", (FFN, HIDDEN)), ("up", (FFN, HIDDEN)), ("down", (HIDDEN, FFN))):
            yield from _matrix(f"{layer}.mlp.{part}_proj", shape, seed)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"{layer}.{norm}.weight", weights.uniform(f"{layer}.{norm}", (HIDDEN,), 0.7, 1.3, seed)
    yield f"{at}.norm.weight", weights.uniform("norm", (HIDDEN,), 0.7, 1.3, seed)
    decoder = weights.spread("decoder", (CODES + SPECIAL, HIDDEN), 3.0 / HIDDEN**0.5, seed)
    decoder[CODES:] *= 0
    decoder[CODES + 1] = weights.spread("end", (HIDDEN,), 3.0 * tiny.end_gain / HIDDEN**0.5, seed)
    yield "llm_decoder.weight", decoder
    yield "speech_embedding.weight", weights.spread("speech", (CODES + SPECIAL, HIDDEN), 0.6, seed)


def flow_tensors(seed: int) -> Named:
    table = weights.spread("flow.tokens", (CODES, MELS), 0.8, seed)
    yield "input_embedding.weight", table
    yield from _matrix("spk_embed_affine_layer", (MELS, EMBEDDING), seed, bias=True)
    yield from _matrix("pre_lookahead_layer.conv1", (LOOKAHEAD_CHANNELS, MELS, 4), seed, bias=True)
    yield from _matrix("pre_lookahead_layer.conv2", (MELS, LOOKAHEAD_CHANNELS, 3), seed, bias=True)
    at, inner = "decoder.estimator", FLOW_HEADS * DIM_HEAD
    yield from _matrix(f"{at}.time_embed.time_mlp.0", (DIM, 256), seed, bias=True)
    yield from _matrix(f"{at}.time_embed.time_mlp.2", (DIM, DIM), seed, bias=True)
    yield from _matrix(f"{at}.input_embed.proj", (DIM, 4 * MELS), seed, bias=True)
    for i in (1, 2):
        yield from _matrix(f"{at}.input_embed.conv_pos_embed.conv{i}.0", (DIM, DIM // 16, 31), seed, bias=True)
    frequencies = 1.0 / 10_000 ** (np.arange(0, DIM_HEAD, 2) / DIM_HEAD)
    yield f"{at}.rotary_embed.inv_freq", frequencies.astype(np.float32)
    for i in range(DEPTH):
        block = f"{at}.transformer_blocks.{i}"
        yield from _matrix(f"{block}.attn_norm.linear", (6 * DIM, DIM), seed, 0.5, bias=True)
        for part in ("q", "k", "v"):
            yield from _matrix(f"{block}.attn.to_{part}", (inner, DIM), seed, bias=True)
        yield from _matrix(f"{block}.attn.to_out.0", (DIM, inner), seed, bias=True)
        yield from _matrix(f"{block}.ff.ff.0.0", (FF_MULT * DIM, DIM), seed, bias=True)
        yield from _matrix(f"{block}.ff.ff.2", (DIM, FF_MULT * DIM), seed, bias=True)
    yield from _matrix(f"{at}.norm_out.linear", (2 * DIM, DIM), seed, 0.5, bias=True)
    yield from _matrix(f"{at}.proj_out", (MELS, DIM), seed, bias=True)


def _normed(name: str, shape: tuple[int, ...], gain: float, seed: int) -> Named:
    """A convolution under weight norm."""
    yield f"{name}.bias", weights.uniform(f"{name}.bias", (shape[0],), -0.1, 0.1, seed)
    path = f"{name}.parametrizations.weight.original"
    yield f"{path}0", weights.uniform(f"{path}0", (shape[0], 1, 1), 0.8 * gain, 1.2 * gain, seed)
    yield f"{path}1", weights.spread(f"{path}1", shape, 1.0, seed)


def _residual(name: str, channels: int, kernel: int, layers: int, seed: int) -> Named:
    for i in range(layers):
        for side, gain in ((1, 0.8), (2, 0.45)):
            yield from _normed(f"{name}.convs{side}.{i}", (channels, channels, kernel), gain, seed)
            alpha = f"{name}.activations{side}.{i}.alpha"
            yield alpha, weights.uniform(alpha, (channels,), 0.6, 1.6, seed)


def hift_tensors(seed: int) -> Named:
    yield from _matrix("m_source.l_linear", (1, 9), seed, 3.0, bias=True)
    yield from _normed("conv_pre", (BASE, MELS, 5), 0.7, seed)
    channels = [BASE >> i for i in range(4)]
    for i, kernel in enumerate((16, 11, 7)):
        yield from _normed(f"ups.{i}", (channels[i + 1], channels[i], kernel), 1.0, seed)
        stride = (15, 3, 1)[i]
        yield from _matrix(f"source_downs.{i}", (channels[i + 1], 18, 2 * stride if i < 2 else 1), seed, 3.0, bias=True)
        yield from _residual(f"source_resblocks.{i}", channels[i + 1], (7, 3, 5)[i], 1, seed)
        yield from _residual(f"resblocks.{i}", channels[i + 1], 3, 2, seed)
    yield from _normed("conv_post", (18, channels[3], 7), 0.3, seed)
    for i in range(5):
        shape = (F0_CHANNELS, F0_CHANNELS if i else MELS, 3 if i else 4)
        yield from _normed(f"f0_predictor.condnet.{2 * i}", shape, 1.5, seed)
    yield "f0_predictor.classifier.weight", weights.spread("f0", (1, F0_CHANNELS), 60.0, seed)
    yield "f0_predictor.classifier.bias", np.array([120.0], np.float32)
