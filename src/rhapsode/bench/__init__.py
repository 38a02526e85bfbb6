"""Benchmarks: the engine's speed, a server's speed under load, and the quality of speech."""
