"""HiFT vocoders: mel frames to samples by a harmonic source, an upsampling network and an inverse Fourier transform.

Two kinds exist. `HiftNet` is causal but for a few frames of look-ahead; `SymmetricHift` looks as far ahead as behind.
"""
