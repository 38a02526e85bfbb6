"""Validates reports against the committed schema."""

import json
from pathlib import Path

from jsonschema import Draft202012Validator

from rhapsode.bench.report import SCHEMA


def check(report: dict | Path) -> dict:
    """Returns the report if it is valid."""
    content = json.loads(report.read_text()) if isinstance(report, Path) else report
    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(content)
    return content
