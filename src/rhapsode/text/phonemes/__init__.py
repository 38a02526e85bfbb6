"""Words as phonemes, for checkpoints that need them: an English lexicon, and rules that choose among its readings."""
