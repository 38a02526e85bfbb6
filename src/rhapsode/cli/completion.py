"""Suggests what the Tab key may complete. Nothing heavy is imported, and nothing is looked up elsewhere."""

from __future__ import annotations


def complete_model(begun: str) -> list[str]:
    """Returns the packaged checkpoints and the families whose names begin so."""
    from rhapsode.models.packaged import PACKAGED
    from rhapsode.models.registry import families

    listed = (spec.name for spec in families()[0].values() if not spec.hidden)
    return [name for name in (*PACKAGED, *listed) if name.startswith(begun)]
