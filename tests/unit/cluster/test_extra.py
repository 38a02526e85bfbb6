"""The cluster is an extra: nothing else imports Ray."""

import logging
import sys
from pathlib import Path

import pytest

from unit.command import python


def test_the_package_the_command_line_and_the_server_import_no_ray(tmp_path: Path) -> None:
    code = "import sys, rhapsode, rhapsode.cli.main, rhapsode.serve.app, rhapsode.cluster; print('ray' in sys.modules)"
    assert python(code, tmp_path).strip() == "False"


def test_rays_line_about_an_address_where_nothing_listens_is_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("ray.serve")
    from rhapsode.cluster.run import _without_address

    log = logging.getLogger("test.ray.serve")
    handler = logging.StreamHandler(sys.stderr)
    log.addHandler(handler)
    log.addFilter(_without_address)
    try:
        log.warning("Application '%s' is ready at http://0.0.0.0:8000/.", "rhapsode")
        log.warning("a replica has ended")
    finally:
        log.removeHandler(handler)
    assert capsys.readouterr().err == "a replica has ended\n"
