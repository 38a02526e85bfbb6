"""The codec of Higgs audio v2 and v3 (the Higgs tokenizer): frames to waveform, and reference audio to frames."""
