"""Prepares text for a model: cleans it, and splits it into sentences, whole or as it arrives."""
