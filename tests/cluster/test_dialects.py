"""Clients of other servers, through the cluster's address: the edge translates, and replicas get our own API."""

import pytest

from cluster.local import LocalCluster
from e2e.serve.dialect_rows import ROWS, DialectRow
from e2e.serve.other_client import OtherClient


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.dialect}-{row.check.__name__}")
def test_a_client_finds_what_it_expects(cluster: LocalCluster, row: DialectRow) -> None:
    model = "rhapsode-nano" if row.needs_words else "cloning"
    other = OtherClient(f"{cluster.url}/{row.dialect}", model=model)
    with other.http:
        row.check(other)
