"""Text on its way to a model: cleaned, split into sentences, whole or as it arrives."""
