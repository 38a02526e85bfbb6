"""Writes deploy/monitoring: `python -m tools.monitoring`."""

import json
from pathlib import Path

import yaml
from tools.monitoring.alerts import rule_file
from tools.monitoring.dashboard import dashboard
from tools.monitoring.metric_list import metric_list

FOLDER = Path(__file__).parents[2] / "deploy" / "monitoring"
MADE = "# Made by `python -m tools.monitoring`: change tools/monitoring/alerts.py instead.\n"


def files() -> dict[str, str]:
    """Returns the files of the folder, by name."""
    return {
        "dashboard.json": json.dumps(dashboard(metric_list()), indent=2) + "\n",
        "alerts.yaml": MADE + yaml.safe_dump(rule_file(), sort_keys=False, width=120),
    }


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (FOLDER / name).write_text(text)
        print(FOLDER / name)


if __name__ == "__main__":
    main()
