"""Higgs audio v2 and Higgs TTS v3: eight codebooks in a delay pattern, and a codec that looks both ways; 24 kHz."""
