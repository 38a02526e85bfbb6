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
    "model: nobody\n": ["broken.yaml:1: there is no family and no checkpoint folder 'nobody'"],
    "lexicon: words.yaml\nlimits:\n  max_queue: -1\noptions:\n  frame_slep_s: 1\n  nope: 2\nmodel: dummy\n": [
        "broken.yaml:1: cannot read the lexicon words.yaml: No such file or directory.",
        "broken.yaml:3: 'limits.max_queue': input should be greater than or equal to 0, got -1.",
        "broken.yaml:5: a deployment of dummy has no option 'frame_slep_s': did you mean 'frame_sleep_s'?",
        "broken.yaml:6: a deployment of dummy has no option 'nope':",
    ],
    "model: dummy\nalignment: {model: nowhere}\nstages:\n  tlak: {batch: 1}\ncompanions:\n  text: here\n": [
        "broken.yaml:2: nowhere",
        "broken.yaml:4: dummy has no stage 'tlak': did you mean",
        "broken.yaml:6: dummy has no companion 'text':",
    ],
    "model: qwen3-tts\n": ["broken.yaml:1: qwen3-tts needs a checkpoint"],
    "models:\n  dummy:\n  other:\n    deployment:\n      options: {nope: 1}\nlexicon: words.yaml\n": [
        "broken.yaml:3: there is no family and no checkpoint folder 'other'",
        "broken.yaml:6: cannot read the lexicon words.yaml",
    ],
    "models:\n  a: {deployment: {model: dummy}}\nserver: {wyoming: 10200}\n": ["server.wyoming.port is for a server"],
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


def test_the_models_of_a_file_are_listed_and_fine_is_the_last_word(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text("models:\n  one: {deployment: {model: dummy}}\n  rhapsode-nano:\n")
    done = rhapsode("config", "check", "good.yaml", cwd=tmp_path)
    assert [line.partition(",")[0] for line in done.stdout.decode().splitlines()] == [
        "dummy",
        "rhapsode-nano",
        "good.yaml is fine: 2 models",
    ]


def test_a_cluster_file_is_checked_as_one_and_is_not_for_a_single_server(tmp_path: Path) -> None:
    file = Path(__file__).parents[2] / "examples" / "cluster.yaml"
    done = rhapsode("config", "check", str(file), cwd=tmp_path)
    assert done.stdout.decode().endswith("cluster.yaml is fine: 2 models\n"), done.stderr.decode()
    refused = rhapsode("serve", "--config", str(file), cwd=tmp_path).stderr.decode()
    assert "rhapsode cluster serve" in refused

    (tmp_path / "broken.yaml").write_text("models:\n  dummy: {replicas: 1, gpsu: 1}\n  nobody: {gpus: -1}\n")
    told = rhapsode("config", "check", "broken.yaml", cwd=tmp_path).stderr.decode().splitlines()
    assert [line.split(" ")[1] for line in told] == ["broken.yaml:2:", "broken.yaml:3:", "broken.yaml:3:"]
