from rhapsode.bench.machine import machine, revision, versions

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_the_machine_and_the_versions_are_named():
    found = machine()
    assert found["cpu"]
    assert found["cores"] >= 1
    assert found["memory_bytes"] > 2**28
    assert {"python", "rhapsode", "numpy"} <= versions().keys()


def test_a_revision_is_read_from_the_repositorys_files(tmp_path, monkeypatch):
    monkeypatch.delenv("GITHUB_SHA", raising=False)
    git, inside = tmp_path / ".git", tmp_path / "src" / "file.py"
    assert revision(inside) is None or len(revision(inside)) >= 40  # whatever is above the temporary folder
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "HEAD").write_text(f"{COMMIT}\n")
    assert revision(inside) == COMMIT
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    assert revision(inside) is None
    (git / "packed-refs").write_text(f"# pack-refs\n{COMMIT} refs/heads/main\n")
    assert revision(inside) == COMMIT
    (git / "refs" / "heads" / "main").write_text(COMMIT[::-1] + "\n")
    assert revision(inside) == COMMIT[::-1]


def test_a_worktree_shares_its_branches(tmp_path):
    main, tree = tmp_path / "main" / ".git", tmp_path / "tree"
    (main / "worktrees" / "tree").mkdir(parents=True)
    (main / "refs" / "heads").mkdir(parents=True)
    tree.mkdir()
    (main / "refs" / "heads" / "topic").write_text(COMMIT)
    (main / "worktrees" / "tree" / "HEAD").write_text("ref: refs/heads/topic")
    (main / "worktrees" / "tree" / "commondir").write_text("../..")
    (tree / ".git").write_text(f"gitdir: {main / 'worktrees' / 'tree'}\n")
    assert revision(tree / "a.py") == COMMIT
