"""Every row of the dialects through an edge, by key and by deployment. The replica does not translate again."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from e2e.serve.dialect_rows import KOKORO, ROWS, SGLANG, VLLM, DialectRow
from e2e.serve.other_client import OtherClient
from e2e.serve.running import Running, in_thread
from tiny.dummy import write
from unit.edge.test_edge import LIMITS, Servers, edge_before

DIALECTS = (VLLM, SGLANG, KOKORO)
HERE = [row for row in ROWS if not row.needs_words]


def name_of(row: DialectRow) -> str:
    return f"{row.dialect}-{row.check.__name__}"


@pytest.fixture(scope="module")
def edges(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Running]]:
    """An edge for each dialect, and one with a key for each. The replica names a dialect, which has no effect."""
    folder = tmp_path_factory.mktemp("replica")
    keys = [{"key": f"key-{dialect}", "dialect": dialect} for dialect in DIALECTS]
    with ExitStack() as stack:
        replica = {"edge_secret": "secret-of-a", "limits": LIMITS, "server": {"dialect": VLLM}}
        servers = Servers({"a": stack.enter_context(in_thread(write(folder / "checkpoint"), folder, **replica)).url})
        opened = {dialect: stack.enter_context(edge_before(servers, dialect=dialect)) for dialect in DIALECTS}
        yield opened | {"keys": stack.enter_context(edge_before(servers, api_keys=keys))}


@pytest.mark.parametrize("way", ["key", pytest.param("deployment", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "row",
    [row if at % 4 == 0 else pytest.param(row, marks=pytest.mark.slow) for at, row in enumerate(HERE)],
    ids=name_of,
)
def test_a_client_finds_what_it_expects(edges: dict[str, Running], row: DialectRow, way: str) -> None:
    edge = edges["keys" if way == "key" else row.dialect]
    other = OtherClient(edge.url, f"key-{row.dialect}")
    with other.http:
        row.check(other)


def test_the_own_api_is_there_as_well(edges: dict[str, Running]) -> None:
    for edge in edges.values():
        answer = edge.http.post(
            "/openai/v1/audio/speech", json={"input": "Hi.", "odd": 1}, headers={"Authorization": f"Bearer key-{VLLM}"}
        )
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unknown_parameter")
