"""What a checkpoint calls the tensors of the transformer and of its adaptive norms."""

DIT_NAMES = {
    "position_convs.0": "conv_pos_embed.conv1.0",
    "position_convs.1": "conv_pos_embed.conv2.0",
    "q_proj": "attn.to_q",
    "k_proj": "attn.to_k",
    "v_proj": "attn.to_v",
    "o_proj": "attn.to_out.0",
    "fc1": "ff.ff.0.0",
    "fc2": "ff.ff.2",
}
DIT_IGNORE = ("time_embed.*", "rotary_embed.*", "transformer_blocks.*.attn_norm.*", "norm_out.*")
"""Tensors of the checkpoint that the tables replace."""

NORM_NAMES = {"time_mlp": "time_embed.time_mlp", "inv_freq": "rotary_embed.inv_freq"}
NORM_IGNORE = ("input_embed.*", "proj_out.*", "transformer_blocks.*.attn.*", "transformer_blocks.*.ff.*")
"""Tensors of the transformer itself, which `DiT` loads."""
