"""How much memory there is for one more model."""

from pathlib import Path

import pytest

from rhapsode.pool.memory import PROGRAM_BYTES, available_bytes, expected_bytes, resident_bytes

GIB = 2**30


def system(folder: Path, free_kb: int, limit: str | None = None, used: int = 0, files: int = 0) -> Path:
    (folder / "proc").mkdir()
    (folder / "proc/meminfo").write_text(f"MemTotal:       99 kB\nMemAvailable:   {free_kb} kB\n")
    if limit is not None:
        cgroup = folder / "sys/fs/cgroup"
        cgroup.mkdir(parents=True)
        (cgroup / "memory.max").write_text(f"{limit}\n")
        (cgroup / "memory.current").write_text(f"{used}\n")
        (cgroup / "memory.stat").write_text(f"anon 1\ninactive_file {files}\nactive_file 5\n")
    return folder


def test_the_smaller_of_machine_and_container_counts(tmp_path: Path) -> None:
    for number, (found, expected) in enumerate(
        [
            ({"free_kb": 4 * 2**20}, 4 * GIB),
            ({"free_kb": 4 * 2**20, "limit": "max", "used": GIB}, 4 * GIB),
            ({"free_kb": 4 * 2**20, "limit": str(3 * GIB), "used": 2 * GIB, "files": GIB // 2}, 3 * GIB // 2),
            ({"free_kb": 2**20, "limit": str(3 * GIB), "used": 0}, GIB),
            ({"free_kb": 2**20, "limit": str(GIB), "used": 2 * GIB}, 0),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert available_bytes(system(folder, **found)) == expected  # type: ignore[arg-type]


def test_it_may_be_unknown(tmp_path: Path) -> None:
    assert available_bytes(tmp_path) is None
    assert resident_bytes(tmp_path / "self") == 0


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux for the resident memory")
def test_this_process_takes_some() -> None:
    assert 2**20 < resident_bytes() < 2**40


def test_a_model_is_as_large_as_its_weights(tmp_path: Path) -> None:
    (tmp_path / "speech_tokenizer").mkdir()
    for name, size in (("model.safetensors", 3000), ("speech_tokenizer/model.safetensors", 1000), ("README.md", 7)):
        (tmp_path / name).write_bytes(bytes(size))
    assert expected_bytes(tmp_path) - PROGRAM_BYTES == 6000
    assert expected_bytes(tmp_path / "model.safetensors") - PROGRAM_BYTES == 4500
    assert expected_bytes(None) == PROGRAM_BYTES


def test_the_memory_of_a_model_is_also_that_of_its_engines_process(tmp_path: Path) -> None:
    for pid, kilobytes, threads in (("self", 100, {"1": "7 8", "2": "9"}), ("7", 1000, {"7": ""}), ("9", 20, {})):
        for thread, children in threads.items():
            (tmp_path / pid / "task" / thread).mkdir(parents=True)
            (tmp_path / pid / "task" / thread / "children").write_text(children)
        (tmp_path / pid).mkdir(exist_ok=True)
        (tmp_path / pid / "status").write_text(f"VmRSS:\t{kilobytes} kB\n")
    assert resident_bytes(tmp_path / "self") == 1120 * 1024
