"""Modules run by fused kernels: their weights are packed once, as the kernels read them. Import it where Triton is."""
