"""The Grafana dashboard, in Grafana's JSON model."""

from typing import Any

from tools.monitoring.metric_list import MetricKind
from tools.monitoring.panels import Panel, rows

WIDTH, HEIGHT, ACROSS = 8, 8, 3  # a dashboard is 24 columns wide
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def dashboard(metrics: dict[str, MetricKind]) -> dict[str, Any]:
    return {
        "uid": "rhapsode",
        "title": "Rhapsode",
        "tags": ["rhapsode", "tts"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "templating": {"list": _variables()},
        "panels": _panels(rows(metrics)),
    }


def _variables() -> list[dict[str, Any]]:
    every = {"type": "query", "datasource": SOURCE, "includeAll": True, "multi": True, "refresh": 2, "sort": 1}
    jobs = "label_values(rhapsode_slots, job)"
    instances = 'label_values(rhapsode_slots{job=~"$job"}, instance)'
    return [
        {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
        {"name": "job", "label": "Job", "query": jobs, **every},
        {"name": "instance", "label": "Instance", "query": instances, **every},
    ]


def _panels(shown: dict[str, tuple[Panel, ...]]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    top = 0
    for title, panels in shown.items():
        made.append(_row(len(made) + 1, title, top))
        for i, panel in enumerate(panels):
            made.append(_graph(len(made) + 1, panel, WIDTH * (i % ACROSS), top + 1 + HEIGHT * (i // ACROSS)))
        top += 1 + HEIGHT * -(-len(panels) // ACROSS)
    return made


def _row(number: int, title: str, top: int) -> dict[str, Any]:
    place = {"h": 1, "w": 24, "x": 0, "y": top}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}


def _graph(number: int, panel: Panel, left: int, top: int) -> dict[str, Any]:
    lines = {"lineWidth": 1, "fillOpacity": 20 if panel.stacked else 0, "showPoints": "never"}
    stacking = {"mode": "normal" if panel.stacked else "none", "group": "A"}
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "gridPos": {"h": HEIGHT, "w": WIDTH, "x": left, "y": top},
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "custom": {**lines, "stacking": stacking}},
            "overrides": [],
        },
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + i), "datasource": SOURCE, "expr": query, "legendFormat": name}
            for i, (query, name) in enumerate(panel.queries)
        ],
    }
