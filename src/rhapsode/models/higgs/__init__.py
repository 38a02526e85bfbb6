"""Higgs audio v2 and v3 by Boson AI: delayed codebooks, and a codec that needs frames on both sides."""
