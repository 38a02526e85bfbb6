"""VoxCPM2: a talker of latent patches with a diffusion head, and a causal VAE as its codec; 48 kHz."""
