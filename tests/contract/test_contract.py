"""Rules that hold for every family, whatever its pipeline."""

from pathlib import Path

import rhapsode.models
from rhapsode.models.lazy import import_name
from rhapsode.models.spec import ModelSpec
from rhapsode.testing.test_listening import *  # noqa: F403
from rhapsode.testing.test_requests import *  # noqa: F403


def own_families() -> set[str]:
    """The names in every `spec.py` of the package: other packages may bring more."""
    folders = [path.parent.name for path in Path(rhapsode.models.__path__[0]).glob("*/spec.py")]
    found = [import_name(f"rhapsode.models.{folder}.spec:SPEC") for folder in folders]
    return {spec.name for one in found for spec in ((one,) if isinstance(one, ModelSpec) else one)}


def test_every_registered_family_is_under_contract():
    files = {path.stem for path in (Path(__file__).parent / "families").glob("[a-z]*.py")}
    assert {name.replace("-", "_") for name in own_families()} == files
