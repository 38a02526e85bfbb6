"""The Wyoming protocol, which Home Assistant and voice satellites speak."""
