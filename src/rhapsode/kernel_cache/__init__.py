"""Compiles the GPU kernels of a deployment before its first start, in several processes."""
