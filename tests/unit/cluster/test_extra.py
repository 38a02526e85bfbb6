"""The cluster is an extra: nothing else imports Ray."""

from pathlib import Path

from unit.command import python


def test_the_package_the_command_line_and_the_server_import_no_ray(tmp_path: Path) -> None:
    code = "import sys, rhapsode, rhapsode.cli.main, rhapsode.serve.app, rhapsode.cluster; print('ray' in sys.modules)"
    assert python(code, tmp_path).strip() == "False"
