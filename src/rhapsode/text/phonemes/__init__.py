"""Words as phonemes, for checkpoints that want them: a lexicon of English and what decides between its readings."""
