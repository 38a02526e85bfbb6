"""The dashboard and the alert rules ask for metrics that exist, have the form that their programs read, and fire."""

import json
import re
import shutil
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from tools.monitoring.__main__ import FOLDER, files
from tools.monitoring.metric_list import metric_list, series
from tools.monitoring.panels import names_in

from rhapsode.config import Deployment
from rhapsode.serve.app import create_app
from unit.pool.front import front, lazy

SCHEMAS = Path(__file__).parent / "schemas"
KNOWN = {name for kind in metric_list().values() for name in series(kind)}
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())
RULES = yaml.safe_load((FOLDER / "alerts.yaml").read_text())
ALERTS = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"]}
GRAPHS = [panel for panel in DASHBOARD["panels"] if panel["type"] == "timeseries"]
QUERIES = [target["expr"] for panel in GRAPHS for target in panel["targets"]]


def errors(schema: str, document: Any) -> list[str]:
    found = Draft202012Validator(json.loads((SCHEMAS / schema).read_text())).iter_errors(document)
    return [f"{error.json_path}: {error.message}" for error in found]


@pytest.mark.parametrize("name", ["dashboard.json", "alerts.yaml"])
def test_the_files_are_what_the_tool_makes(name: str) -> None:
    assert (FOLDER / name).read_text() == files()[name], "run `python -m tools.monitoring`"


def test_the_list_has_every_metric_of_a_running_server() -> None:
    page = create_app(Deployment(model="dummy")).state.service.metrics.text().decode()
    served = {name for name in re.findall(r"^# TYPE (\w+)", page, re.MULTILINE) if not name.endswith("_created")}
    assert len(served) > 30
    assert served <= set(metric_list())


def test_the_list_has_every_metric_of_a_server_of_several_models() -> None:
    with front(lazy("one")) as (_, server):
        page = server.http.get("/metrics").text
    served = {name for name in re.findall(r"^# TYPE (\w+)", page, re.MULTILINE) if not name.endswith("_created")}
    assert {"rhapsode_pool_loads_total", "rhapsode_edge_replicas"} <= served <= set(metric_list())


@pytest.mark.parametrize("expression", [*QUERIES, *(rule["expr"] for rule in ALERTS.values())])
def test_every_metric_that_is_asked_for_exists(expression: str) -> None:
    asked = names_in(expression)
    assert asked <= KNOWN
    assert asked or expression.startswith("up{")


def test_every_metric_has_a_panel() -> None:
    shown = {name for query in QUERIES for name in names_in(query)}
    assert not [kind.name for kind in metric_list().values() if not shown & set(series(kind))]


def test_a_metric_that_nobody_shows_gets_a_panel() -> None:
    from tools.monitoring.metric_list import MetricKind
    from tools.monitoring.panels import rows

    new = MetricKind("rhapsode_new_seconds", "histogram", "Something new.")
    (panel,) = rows({new.name: new})["Everything else"]
    assert panel.title == "Something new"
    assert "rhapsode_new_seconds_bucket" in panel.queries[0][0]


@pytest.mark.parametrize("expression", [*QUERIES, *(rule["expr"] for rule in ALERTS.values())])
def test_every_expression_is_promql(expression: str) -> None:
    promql = pytest.importorskip("promql_parser")
    assert promql.parse(expression.replace("$__rate_interval", "5m")) is not None
    with pytest.raises(ValueError, match=r"."):  # a parser that takes everything would prove nothing
        promql.parse(expression + ")")


def test_the_dashboard_has_the_form_that_grafana_reads() -> None:
    assert errors("grafana_dashboard.json", DASHBOARD) == []
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD)))
    assert used - {"__rate_interval"} <= variables


def test_no_panel_covers_another() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for a, b in combinations(places, 2):
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        assert beside or a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]


def test_the_rules_have_the_form_that_prometheus_reads() -> None:
    assert errors("prometheus_rules.json", RULES) == []
    assert len(ALERTS) == sum(len(group["rules"]) for group in RULES["groups"])
    for rule in ALERTS.values():
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"].keys() == {"summary", "description"}


@pytest.mark.parametrize("wrong", [{"for": "soon"}, {"expr": ""}, {"severity": "high"}, {"labels": {"severity": 1}}])
def test_a_wrong_rule_is_found_by_the_schema(wrong: dict[str, Any]) -> None:
    rule = {**ALERTS["RhapsodeDown"], **wrong}
    assert errors("prometheus_rules.json", {"groups": [{"name": "one", "rules": [rule]}]})


# --- promtool, where it is installed: do the alerts fire, and only then? ---

HEALTHY = {
    'up{job="rhapsode",instance="a"}': "1x60",
    'rhapsode_requests_total{job="rhapsode",instance="a",outcome="stop"}': "0+100x60",
    'rhapsode_requests_total{job="rhapsode",instance="a",outcome="failed"}': "0x60",
    'rhapsode_requests_total{job="rhapsode",instance="a",outcome="refused"}': "0x60",
    'rhapsode_underruns_total{job="rhapsode",instance="a"}': "0x60",
    'rhapsode_first_audio_seconds_bucket{job="rhapsode",instance="a",le="0.5"}': "0+100x60",
    'rhapsode_first_audio_seconds_bucket{job="rhapsode",instance="a",le="5"}': "0+100x60",
    'rhapsode_first_audio_seconds_bucket{job="rhapsode",instance="a",le="+Inf"}': "0+100x60",
    'rhapsode_slots{job="rhapsode",instance="a"}': "32x60",
    'rhapsode_slots_in_use{job="rhapsode",instance="a"}': "10x60",
    'rhapsode_queue_depth{job="rhapsode",instance="a"}': "0x60",
    'rhapsode_real_time_listeners{job="rhapsode",instance="a"}': "32x60",
    'rhapsode_pages{job="rhapsode",instance="a"}': "1000x60",
    'rhapsode_pages_in_use{job="rhapsode",instance="a"}': "300x60",
    'rhapsode_slow_turns_total{job="rhapsode",instance="a",stage="talk"}': "0x60",
    'rhapsode_model_loads_total{job="rhapsode",instance="a"}': "1x60",
    'rhapsode_pool_loads_total{job="rhapsode",instance="p",model="m"}': "1x60",
    'process_open_fds{job="rhapsode",instance="a"}': "50x60",
    'process_max_fds{job="rhapsode",instance="a"}': "1024x60",
    'rhapsode_edge_waiting{job="rhapsode",instance="e",model="m"}': "0x60",
    'rhapsode_edge_replicas{job="rhapsode",instance="e",model="m"}': "2x60",
}
TROUBLE = {
    "RhapsodeDown": {"up": "0x60"},
    "RhapsodeFailures": {'outcome="failed"': "0+5x60"},
    "RhapsodeRefusals": {'outcome="refused"': "0+10x60"},
    "RhapsodeUnderruns": {"rhapsode_underruns": "0+20x60"},
    "RhapsodeSlowFirstAudio": {'le="0.5"': "0x60"},
    "RhapsodeFull": {"rhapsode_queue_depth": "25x60"},
    "RhapsodePagesTaken": {"rhapsode_pages_in_use": "990x60"},
    "RhapsodeSlowTurns": {"rhapsode_slow_turns": "0+5x60"},
    "RhapsodeModelLoads": {"rhapsode_model_loads": "0+1x60"},
    "RhapsodePoolLoads": {"rhapsode_pool_loads": "0+1x60"},
    "RhapsodeOpenFiles": {"process_open_fds": "1000x60"},
    "RhapsodeNoReplica": {"rhapsode_edge_waiting": "3x60", "rhapsode_edge_replicas": "0x60"},
}


def scenario(changes: dict[str, str], expected: list[str]) -> dict[str, Any]:
    """An hour in which the series that `changes` names by a part go another way."""
    given = {name: next((new for part, new in changes.items() if part in name), was) for name, was in HEALTHY.items()}
    assert given != HEALTHY or not changes
    firing = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in expected]
    query = 'count by (alertname) (ALERTS{alertstate="firing"})'
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in given.items()],
        "promql_expr_test": [{"expr": query, "eval_time": "50m", "exp_samples": firing}],
    }


def test_every_alert_has_a_scenario() -> None:
    assert TROUBLE.keys() == ALERTS.keys()


@pytest.mark.parametrize("name", ["all is well", *TROUBLE])
def test_an_alert_fires_where_it_should_and_no_other_does(name: str, tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("needs promtool, of Prometheus")
    (tmp_path / "alerts.yaml").write_text((FOLDER / "alerts.yaml").read_text())
    changes, expected = TROUBLE.get(name, {}), [name] if name in TROUBLE else []
    tests = {"rule_files": ["alerts.yaml"], "evaluation_interval": "1m", "tests": [scenario(changes, expected)]}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(tests))
    done = subprocess.run(
        [promtool, "test", "rules", tmp_path / "test.yaml"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
