"""`rhapsode config check` tells all that is wrong with a file, with its lines; and `serve` tells the same."""

from pathlib import Path

import pytest

from unit.command import rhapsode

BROKEN = {
    "model: dummy\nlimits:\n  max_concurency: 3\n  max_queue: -1\nserver:\n  port: many\n": [
        "broken.yaml:3: unknown key 'limits.max_concurency': did you mean 'max_concurrency'?",
        "broken.yaml:4: 'limits.max_queue': input should be greater than or equal to 0, got -1.",
        "broken.yaml:6: 'server.port': input should be a valid integer",
    ],
    "model: dummy\nserver: [\n": ["broken.yaml is not valid YAML at line 3"],
    "model: nobody\n": ["there is no family and no checkpoint folder 'nobody'"],
}


@pytest.mark.parametrize("content", BROKEN)
@pytest.mark.parametrize("command", [("config", "check"), ("serve", "--config")])
def test_all_problems_are_told_with_their_lines(tmp_path: Path, content: str, command: tuple[str, str]) -> None:
    (tmp_path / "broken.yaml").write_text(content)
    done = rhapsode(*command, "broken.yaml", cwd=tmp_path)
    told = done.stderr.decode().splitlines()
    assert done.returncode in (1, 2)
    assert len(told) == len(BROKEN[content]), told
    for line, expected in zip(told, BROKEN[content], strict=True):
        assert line.startswith(f"rhapsode: {expected}"), line


def test_a_file_that_is_right_is_said_to_be_fine(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text("model: dummy\n")
    done = rhapsode("config", "check", "good.yaml", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.decode().startswith("good.yaml is fine: dummy")
