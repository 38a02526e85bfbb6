"""The contract suite: what every model family must pass. `pytest --pyargs rhapsode.testing --family my-model`."""
