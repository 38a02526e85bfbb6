"""Modules that run on fused kernels. Weights are packed once, in the layout that the kernels read. Requires Triton."""
