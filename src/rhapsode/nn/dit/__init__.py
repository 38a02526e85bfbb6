"""Diffusion transformers over frames, which predict velocities for a flow with guidance."""
