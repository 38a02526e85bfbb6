"""`rhapsode voices`, `rhapsode models` on a narrow terminal, and what the Tab key completes."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rhapsode.types import Clip
from rhapsode.voices.store import VoiceStore
from tiny.qwen3_tts import Tiny, write
from unit.command import environment, rhapsode


def lines_of(done: subprocess.CompletedProcess[bytes]) -> list[str]:
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().splitlines()


def test_the_voices_of_the_default_model_are_listed_with_what_is_known_of_them(tmp_path: Path) -> None:
    shown = lines_of(rhapsode("voices", "--folder", "none", cwd=tmp_path))
    assert [line.split()[0] for line in shown] == ["heart", "michael", "emma", "kore", "fenrir", "george"]
    assert shown[0].split("  ")[-1].strip() == "preset; female; en"
    assert not (tmp_path / "none").exists()  # to list creates nothing


def test_uploaded_voices_are_listed_where_the_checkpoint_can_speak_with_them(tmp_path: Path) -> None:
    clip = Clip(np.zeros((1, 24_000), np.float32), 24_000)
    VoiceStore(tmp_path / "voices").add("Ada", clip=clip, consent="she agreed")
    write(tmp_path / "base", Tiny(kind="base"))
    shown = lines_of(rhapsode("voices", "base", "--folder", "voices", cwd=tmp_path))
    assert [line.split()[:4] for line in shown] == [["Ada", "uploaded;", "1.0", "s;"]]
    (row,) = json.loads(rhapsode("voices", "base", "--folder", "voices", "--json", cwd=tmp_path).stdout)
    assert (row["name"], row["kind"], row["duration_s"]) == ("Ada", "uploaded", 1.0)
    assert {"en", "de"} <= set(row["languages"])
    write(tmp_path / "custom", Tiny(kind="custom_voice"))  # has presets, and clones nobody
    rows = json.loads(rhapsode("voices", "custom", "--folder", "voices", "--json", cwd=tmp_path).stdout)
    assert {row["kind"] for row in rows} == {"preset"}
    assert {row["name"]: row.get("accent") for row in rows} == {
        "aiden": None,
        "eric": "sichuan dialect",
        "dylan": "beijing dialect",
    }


def test_a_model_without_voices_says_why(tmp_path: Path) -> None:
    (told,) = lines_of(rhapsode("voices", "moss-tts-nano", "--folder", "none", cwd=tmp_path))
    assert told == "moss-tts-nano has no presets, and no voice was uploaded that it speaks with."
    refused = rhapsode("voices", "no-such-model", cwd=tmp_path, HF_HUB_OFFLINE="1")
    assert refused.returncode != 0
    assert refused.stderr.startswith(b"rhapsode: ")


@pytest.mark.parametrize("columns", [80, 60])
def test_models_are_listed_in_whole_words_however_narrow_the_terminal_is(tmp_path: Path, columns: int) -> None:
    shown = lines_of(rhapsode("models", cwd=tmp_path, COLUMNS=str(columns)))
    listed = [line for line in shown if "is not installed" not in line]  # a command, to be copied
    assert max(map(len, listed)) <= columns
    rows = json.loads(rhapsode("models", "--json", cwd=tmp_path).stdout)
    words = " ".join(" ".join(shown).split())
    assert [row["name"] for row in rows if row["summary"] not in words] == []
    assert len(listed) < 6 * len(rows)


@pytest.mark.skipif(shutil.which("bash") is None, reason="completion is tried in bash")
def test_one_command_installs_what_the_tab_key_completes(tmp_path: Path) -> None:
    command = tmp_path / "rhapsode"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m rhapsode "$@"\n')
    command.chmod(0o755)
    env = environment(HOME=str(tmp_path), PATH=f"{tmp_path}:{os.environ['PATH']}")

    def bash(script: str) -> str:
        given = {"env": env, "cwd": tmp_path, "timeout": 120}
        done = subprocess.run(["bash", "-c", script], **given, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    bash("rhapsode --install-completion; exit $?")
    complete = (
        "source ~/.bashrc; {}; $(complete -p rhapsode | grep -o '_rhapsode[^ ]*') rhapsode; echo ${{COMPREPLY[@]}}"
    )
    assert set(bash(complete.format("COMP_WORDS=(rhapsode v); COMP_CWORD=1")).split()) == {"verify", "voices"}
    assert bash(complete.format("COMP_WORDS=(rhapsode voices hib); COMP_CWORD=2")).split() == ["hibari"]
