"""Names and shapes of every tensor of a Qwen3-TTS 12 Hz checkpoint, derived from its config."""

from typing import Any

Shapes = dict[str, tuple[int, ...]]


def _decoder_layers(prefix: str, c: dict[str, Any]) -> Shapes:
    """Qwen3 layers: pre-norm, GQA with QK-norm, SwiGLU."""
    hidden, ffn, head = c["hidden_size"], c["intermediate_size"], c["head_dim"]
    queries, keys = c["num_attention_heads"] * head, c["num_key_value_heads"] * head
    shapes: Shapes = {}
    for i in range(c["num_hidden_layers"]):
        at = f"{prefix}.layers.{i}"
        shapes |= {
            f"{at}.input_layernorm.weight": (hidden,),
            f"{at}.post_attention_layernorm.weight": (hidden,),
            f"{at}.self_attn.q_proj.weight": (queries, hidden),
            f"{at}.self_attn.k_proj.weight": (keys, hidden),
            f"{at}.self_attn.v_proj.weight": (keys, hidden),
            f"{at}.self_attn.o_proj.weight": (hidden, queries),
            f"{at}.self_attn.q_norm.weight": (head,),
            f"{at}.self_attn.k_norm.weight": (head,),
            f"{at}.mlp.gate_proj.weight": (ffn, hidden),
            f"{at}.mlp.up_proj.weight": (ffn, hidden),
            f"{at}.mlp.down_proj.weight": (hidden, ffn),
        }
    return shapes | {f"{prefix}.norm.weight": (hidden,)}


def talker_shapes(config: dict[str, Any]) -> Shapes:
    """`model.safetensors`: talker, code predictor and, for a base model, the speaker encoder."""
    t = config["talker_config"]
    p = t["code_predictor_config"]
    hidden, text, books = t["hidden_size"], t["text_hidden_size"], t["num_code_groups"] - 1
    shapes = _decoder_layers("talker.model", t) | _decoder_layers("talker.code_predictor.model", p)
    shapes |= {
        "talker.model.codec_embedding.weight": (t["vocab_size"], hidden),
        "talker.model.text_embedding.weight": (t["text_vocab_size"], text),
        "talker.text_projection.linear_fc1.weight": (text, text),
        "talker.text_projection.linear_fc1.bias": (text,),
        "talker.text_projection.linear_fc2.weight": (hidden, text),
        "talker.text_projection.linear_fc2.bias": (hidden,),
        "talker.codec_head.weight": (t["vocab_size"], hidden),
    }
    for book in range(books):
        shapes[f"talker.code_predictor.model.codec_embedding.{book}.weight"] = (p["vocab_size"], hidden)
        shapes[f"talker.code_predictor.lm_head.{book}.weight"] = (p["vocab_size"], p["hidden_size"])
    if p["hidden_size"] != hidden:
        shapes["talker.code_predictor.small_to_mtp_projection.weight"] = (p["hidden_size"], hidden)
        shapes["talker.code_predictor.small_to_mtp_projection.bias"] = (p["hidden_size"],)
    if config["tts_model_type"] == "base":
        shapes |= speaker_shapes(config["speaker_encoder_config"])
    return shapes


def _conv(name: str, out: int, into: int, kernel: int, bias: bool = True) -> Shapes:
    weight: Shapes = {f"{name}.weight": (out, into, kernel)}
    return weight | {f"{name}.bias": (out,)} if bias else weight


def speaker_shapes(c: dict[str, Any]) -> Shapes:
    """The ECAPA-TDNN speaker encoder."""
    channels, kernels = c["enc_channels"], c["enc_kernel_sizes"]
    wide, scale = channels[-1], c["enc_res2net_scale"]
    shapes = _conv("speaker_encoder.blocks.0.conv", channels[0], c["mel_dim"], kernels[0])
    for i in range(1, len(channels) - 1):
        at, dim = f"speaker_encoder.blocks.{i}", channels[i]
        shapes |= _conv(f"{at}.tdnn1.conv", dim, channels[i - 1], 1) | _conv(f"{at}.tdnn2.conv", dim, dim, 1)
        for j in range(scale - 1):
            shapes |= _conv(f"{at}.res2net_block.blocks.{j}.conv", dim // scale, dim // scale, kernels[i])
        shapes |= _conv(f"{at}.se_block.conv1", c["enc_se_channels"], dim, 1)
        shapes |= _conv(f"{at}.se_block.conv2", dim, c["enc_se_channels"], 1)
    shapes |= _conv("speaker_encoder.mfa.conv", wide, sum(channels[1:-1]), kernels[-1])
    shapes |= _conv("speaker_encoder.asp.tdnn.conv", c["enc_attention_channels"], 3 * wide, 1)
    shapes |= _conv("speaker_encoder.asp.conv", wide, c["enc_attention_channels"], 1)
    return shapes | _conv("speaker_encoder.fc", c["enc_dim"], 2 * wide, 1)


def codec_shapes(config: dict[str, Any]) -> Shapes:
    """`speech_tokenizer/model.safetensors`: codec decoder and (Mimi) encoder."""
    return _codec_decoder_shapes(config["decoder_config"]) | _codec_encoder_shapes(config["encoder_config"])


def _codec_decoder_shapes(d: dict[str, Any]) -> Shapes:
    width, latent, hidden, ffn = d["codebook_dim"], d["latent_dim"], d["hidden_size"], d["intermediate_size"]
    shapes: Shapes = {}
    for part, books in (("rvq_first", 1), ("rvq_rest", d["num_quantizers"] - 1)):
        at = f"decoder.quantizer.{part}"
        shapes |= _conv(f"{at}.input_proj", width // 2, width, 1, bias=False)
        shapes |= _conv(f"{at}.output_proj", width, width // 2, 1, bias=False)
        for book in range(books):
            shapes[f"{at}.vq.layers.{book}._codebook.cluster_usage"] = (d["codebook_size"],)
            shapes[f"{at}.vq.layers.{book}._codebook.embedding_sum"] = (d["codebook_size"], width // 2)
    shapes |= _conv("decoder.pre_conv.conv", latent, width, 3)
    at = "decoder.pre_transformer"
    shapes |= {
        f"{at}.input_proj.weight": (hidden, latent),
        f"{at}.input_proj.bias": (hidden,),
        f"{at}.output_proj.weight": (latent, hidden),
        f"{at}.output_proj.bias": (latent,),
        f"{at}.norm.weight": (hidden,),
    }
    queries, keys = d["num_attention_heads"] * d["head_dim"], d["num_key_value_heads"] * d["head_dim"]
    for i in range(d["num_hidden_layers"]):
        layer = f"{at}.layers.{i}"
        shapes |= {
            f"{layer}.input_layernorm.weight": (hidden,),
            f"{layer}.post_attention_layernorm.weight": (hidden,),
            f"{layer}.self_attn.q_proj.weight": (queries, hidden),
            f"{layer}.self_attn.k_proj.weight": (keys, hidden),
            f"{layer}.self_attn.v_proj.weight": (keys, hidden),
            f"{layer}.self_attn.o_proj.weight": (hidden, queries),
            f"{layer}.mlp.gate_proj.weight": (ffn, hidden),
            f"{layer}.mlp.up_proj.weight": (ffn, hidden),
            f"{layer}.mlp.down_proj.weight": (hidden, ffn),
            f"{layer}.self_attn_layer_scale.scale": (hidden,),
            f"{layer}.mlp_layer_scale.scale": (hidden,),
        }
    for i, factor in enumerate(d["upsampling_ratios"]):
        shapes |= {
            f"decoder.upsample.{i}.0.conv.weight": (latent, latent, factor),
            f"decoder.upsample.{i}.0.conv.bias": (latent,),
        }
        at = f"decoder.upsample.{i}.1"
        shapes |= _conv(f"{at}.dwconv.conv", latent, 1, 7)
        shapes |= {
            f"{at}.norm.weight": (latent,),
            f"{at}.norm.bias": (latent,),
            f"{at}.pwconv1.weight": (4 * latent, latent),
            f"{at}.pwconv1.bias": (4 * latent,),
            f"{at}.pwconv2.weight": (latent, 4 * latent),
            f"{at}.pwconv2.bias": (latent,),
            f"{at}.gamma": (latent,),
        }
    return shapes | _vocoder_shapes(d)


def _snake(name: str, dim: int) -> Shapes:
    return {f"{name}.alpha": (dim,), f"{name}.beta": (dim,)}


def _vocoder_shapes(d: dict[str, Any]) -> Shapes:
    dim = d["decoder_dim"]
    shapes = _conv("decoder.decoder.0.conv", dim, d["latent_dim"], 7)
    for i, rate in enumerate(d["upsample_rates"], start=1):
        at, half = f"decoder.decoder.{i}.block", dim // 2
        shapes |= _snake(f"{at}.0", dim)
        shapes |= {f"{at}.1.conv.weight": (dim, half, 2 * rate), f"{at}.1.conv.bias": (half,)}
        for unit in (2, 3, 4):
            shapes |= _snake(f"{at}.{unit}.act1", half) | _conv(f"{at}.{unit}.conv1.conv", half, half, 7)
            shapes |= _snake(f"{at}.{unit}.act2", half) | _conv(f"{at}.{unit}.conv2.conv", half, half, 1)
        dim = half
    last = len(d["upsample_rates"]) + 1
    return shapes | _snake(f"decoder.decoder.{last}", dim) | _conv(f"decoder.decoder.{last + 1}.conv", 1, dim, 7)


def _codec_encoder_shapes(m: dict[str, Any]) -> Shapes:
    dim, hidden, ffn = m["num_filters"], m["hidden_size"], m["intermediate_size"]
    shapes = _conv("encoder.encoder.layers.0.conv", dim, m["audio_channels"], m["kernel_size"])
    layer = 1
    for ratio in reversed(m["upsampling_ratios"]):
        for _ in range(m["num_residual_layers"]):
            at = f"encoder.encoder.layers.{layer}.block"
            shapes |= _conv(f"{at}.1.conv", dim // m["compress"], dim, m["residual_kernel_size"])
            shapes |= _conv(f"{at}.3.conv", dim, dim // m["compress"], 1)
            layer += 1
        layer += 1  # ELU
        shapes |= _conv(f"encoder.encoder.layers.{layer}.conv", 2 * dim, dim, 2 * ratio)
        layer, dim = layer + 1, 2 * dim
    shapes |= _conv(f"encoder.encoder.layers.{layer + 1}.conv", hidden, dim, m["last_kernel_size"])
    queries, keys = m["num_attention_heads"] * m["head_dim"], m["num_key_value_heads"] * m["head_dim"]
    for i in range(m["num_hidden_layers"]):
        at = f"encoder.encoder_transformer.layers.{i}"
        for norm in ("input_layernorm", "post_attention_layernorm"):
            shapes |= {f"{at}.{norm}.weight": (hidden,), f"{at}.{norm}.bias": (hidden,)}
        shapes |= {
            f"{at}.self_attn.q_proj.weight": (queries, hidden),
            f"{at}.self_attn.k_proj.weight": (keys, hidden),
            f"{at}.self_attn.v_proj.weight": (keys, hidden),
            f"{at}.self_attn.o_proj.weight": (hidden, queries),
            f"{at}.mlp.fc1.weight": (ffn, hidden),
            f"{at}.mlp.fc2.weight": (hidden, ffn),
            f"{at}.self_attn_layer_scale.scale": (hidden,),
            f"{at}.mlp_layer_scale.scale": (hidden,),
        }
    shapes |= _conv("encoder.downsample.conv", hidden, hidden, 4, bias=False)
    semantic = m["num_semantic_quantizers"]
    vq = m["vector_quantization_hidden_dimension"]
    for part, books in (("semantic", semantic), ("acoustic", m["num_quantizers"] - semantic)):
        at = f"encoder.quantizer.{part}_residual_vector_quantizer"
        shapes |= _conv(f"{at}.input_proj", vq, hidden, 1, bias=False) | _conv(
            f"{at}.output_proj", hidden, vq, 1, bias=False
        )
        for book in range(books):
            shapes[f"{at}.layers.{book}.codebook.initialized"] = (1,)
            shapes[f"{at}.layers.{book}.codebook.cluster_usage"] = (m["codebook_size"],)
            shapes[f"{at}.layers.{book}.codebook.embed_sum"] = (m["codebook_size"], m["codebook_dim"])
    return shapes
