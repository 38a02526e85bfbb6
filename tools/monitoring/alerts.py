"""The alert rules, in the form of a Prometheus rule file."""

from dataclasses import dataclass
from typing import Any

PAGE, TICKET = "critical", "warning"
LISTENERS = "sum by (job) (rhapsode_slots_in_use + rhapsode_queue_depth)"
PLACES = "sum by (job) (rhapsode_real_time_listeners > 0)"
REQUESTS = "(sum by (job) (rate(rhapsode_requests_total[5m])) > 0)"
UNDERRUNS = "sum by (job) (rate(rhapsode_underruns_total[5m]))"


def per_request(outcome: str) -> str:
    ended = f'sum by (job) (rate(rhapsode_requests_total{{outcome=~"{outcome}"}}[5m]))'
    return f"{ended} / {REQUESTS}"


def p95(histogram: str) -> str:
    return f"histogram_quantile(0.95, sum by (job, le) (rate({histogram}_bucket[5m])))"


@dataclass(frozen=True)
class Alert:
    """A condition, how long it must hold, and what to do."""

    name: str
    when: str
    lasting: str
    severity: str
    summary: str
    action: str


ALERTS = (
    Alert(
        "RhapsodeDown",
        'up{job=~".*rhapsode.*"} == 0',
        "2m",
        PAGE,
        "{{ $labels.instance }} does not answer.",
        "Look at its log and at /health. A first start downloads weights, which takes minutes.",
    ),
    Alert(
        "RhapsodeFailures",
        f"{per_request('failed|timeout')} > 0.02",
        "5m",
        PAGE,
        "{{ $value | humanizePercentage }} of the requests of {{ $labels.job }} fail.",
        "The log names each error with its request id.",
    ),
    Alert(
        "RhapsodeRefusals",
        f"{per_request('refused')} > 0.05",
        "5m",
        PAGE,
        "{{ $value | humanizePercentage }} of the requests of {{ $labels.job }} are refused.",
        "More replicas; or a longer queue, limits.max_queue, if listeners can wait.",
    ),
    Alert(
        "RhapsodeUnderruns",
        f"{UNDERRUNS} / {REQUESTS} > 0.05",
        "10m",
        TICKET,
        "Listeners of {{ $labels.job }} hear gaps.",
        "Look at slow turns and at CPU use: something else runs on the machine, or limits.max_concurrency is too high.",
    ),
    Alert(
        "RhapsodeSlowFirstAudio",
        f"{p95('rhapsode_first_audio_seconds')} > 1",
        "10m",
        TICKET,
        "One in twenty listeners of {{ $labels.job }} waits {{ $value | humanizeDuration }} for the first audio.",
        "If they wait for a place, start more replicas; if not, look at slow turns and at the time of references.",
    ),
    Alert(
        "RhapsodeFull",
        f"{LISTENERS} / {PLACES} > 0.9",
        "10m",
        TICKET,
        "{{ $labels.job }} is {{ $value | humanizePercentage }} full.",
        "Start more replicas before requests are refused.",
    ),
    Alert(
        "RhapsodePagesTaken",
        "sum by (job, instance) (rhapsode_pages_in_use) / (sum by (job, instance) (rhapsode_pages) > 0) > 0.95",
        "10m",
        TICKET,
        "{{ $labels.instance }} has taken nearly all KV pages.",
        "Requests wait for pages though slots are free: raise memory.pages, or lower limits.max_positions.",
    ),
    Alert(
        "RhapsodeSlowTurns",
        "sum by (job, instance, stage) (increase(rhapsode_slow_turns_total[15m])) > 20",
        "5m",
        TICKET,
        "The device loop of {{ $labels.instance }} stands still at times ({{ $labels.stage }}).",
        "The log says what each slow turn was for.",
    ),
    Alert(
        "RhapsodeModelLoads",
        "sum by (job, instance) (increase(rhapsode_model_loads_total[30m])) > 4",
        "1m",
        TICKET,
        "{{ $labels.instance }} loads its model again and again.",
        "The engine restarts, which the log explains; or the time after which an idle model is unloaded is too short.",
    ),
    Alert(
        "RhapsodePoolLoads",
        "sum by (job, instance, model) (increase(rhapsode_pool_loads_total[30m])) > 6",
        "1m",
        TICKET,
        "{{ $labels.instance }} loads {{ $labels.model }} again and again.",
        "Models take each other's room: more memory, a higher most_loaded, or pinned: true for those asked for most. "
        "Or it is unloaded too early: a longer server.idle_unload_s.",
    ),
    Alert(
        "RhapsodeOpenFiles",
        "process_open_fds / process_max_fds > 0.9 and on (instance, job) rhapsode_slots",
        "5m",
        TICKET,
        "{{ $labels.instance }} has nearly as many open files as it may.",
        "Raise LimitNOFILE of the unit, or limit the connections of the proxy.",
    ),
    Alert(
        "RhapsodeNoReplica",
        "sum by (job, model) (rhapsode_edge_waiting) > 0 and sum by (job, model) (rhapsode_edge_replicas) == 0",
        "5m",
        PAGE,
        "Requests for {{ $labels.model }} wait, and it has no replica.",
        "`rhapsode cluster status`; a replica that does not start says why in Ray's log.",
    ),
)


def rule_file() -> dict[str, Any]:
    return {"groups": [{"name": "rhapsode", "rules": [_rule(alert) for alert in ALERTS]}]}


def _rule(alert: Alert) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.when,
        "for": alert.lasting,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "description": alert.action},
    }
