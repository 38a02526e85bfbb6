"""Clients of other servers, whose URL alone is changed: every row, by prefix, by key and by deployment."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rhapsode.engine.alignment as alignment_module
from e2e.serve.dialect_rows import KOKORO, ROWS, SGLANG, VLLM, DialectRow, table
from e2e.serve.other_client import OtherClient
from e2e.serve.running import Running, in_thread
from rhapsode.audio.decode import decode
from spelling.family import SPELLING
from spelling.hearing import ToneModel
from tiny import kokoro
from tiny.dummy import write

DOCS = Path(__file__).parents[3] / "docs/clients.md"
DIALECTS = (VLLM, SGLANG, KOKORO)
WAYS = ("prefix", "key", "deployment")
KEYS = {dialect: f"key-{dialect}" for dialect in DIALECTS}
SERVERS = {"plain": {}, **{dialect: {"dialect": dialect} for dialect in DIALECTS}}


def settings(server: dict) -> dict:
    keys = ["own", *({"key": key, "dialect": dialect} for dialect, key in KEYS.items())]
    return {"limits": {"max_concurrency": 4}, "server": {"api_keys": keys, **server}}


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Running]]:
    """Servers by what they are for, each started when it is first asked for."""
    contexts, running = [], {}

    def start(name: str, has_words: bool) -> Running:
        if (name, has_words) not in running:
            folder = tmp_path_factory.mktemp(name)
            model = SPELLING if has_words else write(folder / "checkpoint")
            contexts.append(in_thread(model, folder, **settings(SERVERS[name])))
            running[name, has_words] = contexts[-1].__enter__()
        return running[name, has_words]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alignment_module, "load_acoustic", lambda *_: ToneModel())
        yield start
        for context in contexts:
            context.__exit__(None, None, None)


def client(started, way: str, dialect: str, has_words: bool = False) -> OtherClient:
    server = started(dialect if way == "deployment" else "plain", has_words)
    prefix = f"/{dialect}" if way == "prefix" else ""
    return OtherClient(server.url + prefix, KEYS[dialect] if way == "key" else "own")


@pytest.mark.parametrize("way", [*WAYS[:2], pytest.param(WAYS[2], marks=pytest.mark.slow)])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.dialect}-{row.check.__name__}")
def test_a_client_finds_what_it_expects(started, row: DialectRow, way: str) -> None:
    other = client(started, way, row.dialect, row.needs_words)
    with other.http:
        row.check(other)


def test_a_model_that_takes_phonemes_and_mixes_speaks_them(tmp_path: Path) -> None:
    limits = {"max_concurrency": 2, "real_time": False}
    with in_thread(str(kokoro.write(tmp_path / "kokoro")), tmp_path, limits=limits) as server:
        other = OtherClient(f"{server.url}/{KOKORO}")
        with other.http:
            said = other.ask("POST", "/dev/phonemize", json={"text": "Hello there.", "language": "a"}).json()[
                "phonemes"
            ]
            bodies = [{"phonemes": said, "voice": voice} for voice in ("am_adam", "am_adam(2)+af_heart")]
            files = [other.ask("POST", "/dev/generate_from_phonemes", json=body) for body in bodies]
            assert {file.headers["content-type"] for file in files} == {"audio/wav"}
            assert "x-ignored-fields" not in files[1].headers
            first, mixed = (decode(file.content).samples for file in files)
            assert first.shape[1] > 1000
            assert first.tobytes() != mixed.tobytes()
            text = {"input": "In [Worcester](/wˈʊstəɹ/), 2 of us.", "voice": "bf_emma", "response_format": "wav"}
            told = {"phonemes": "ˈɪn wˈʊstəɹ, tˈuː ʌv ˌʌs.", "voice": "bf_emma"}
            sounds = other.ask("POST", "/v1/audio/speech", json={**text, "seed": 1})
            same = other.ask("POST", "/v1/audio/speech", json={**text, **told, "input": "Hi.", "seed": 1})
            assert sounds.content == same.content
            for wrong in ("", " ", "xyz€", 7, None):
                body = {"phonemes": wrong, "voice": "af_heart"}
                assert other.ask("POST", "/dev/generate_from_phonemes", 400, json=body).json()["detail"]["message"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_table_in_the_docs_is_that_of_the_tests(dialect: str) -> None:
    assert table(dialect) in DOCS.read_text("utf-8")
