"""The reference encoders: a recording becomes the voice of the language model and of the flow."""
