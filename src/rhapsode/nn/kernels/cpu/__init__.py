"""Kernels for CPUs, in C: whole stacks of small operators in one call, where PyTorch would launch hundreds."""
