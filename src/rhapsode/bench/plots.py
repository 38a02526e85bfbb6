"""Plots of a report: latency by load, throughput by concurrency, a frame's time by section, replicas by load."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rhapsode.errors import MissingDependency
from rhapsode.extras import how_to_install

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, GRID = "#22262b", "#d9dde2"
COLOURS = {
    "prefill": "#8c8c8c",
    "talker": "#1f5fa8",
    "depth": "#e08a1e",
    "sampling": "#6a9f3a",
    "codec": "#a3428c",
    "generator": "#1f5fa8",
    "host": "#c9ced6",
}
LINES = ("#1f5fa8", "#e08a1e", "#a3428c", "#6a9f3a")
Plot = Callable[[Mapping[str, Any], "Axes"], bool]


def draw(report: Mapping[str, Any], beside: Path) -> list[Path]:
    """Draws every plot that the report has data for. Images are named like the file `beside`, with the plot's name
    added; returns their paths."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependency(f"plots need matplotlib: {how_to_install('bench')}") from None
    written = []
    for name, plot in PLOTS[report["kind"]].items():
        figure = Figure(figsize=(9, 5.2), dpi=130, layout="constrained")
        axes = figure.subplots()
        if plot(report, axes):
            _finish(figure, axes, report)
            path = beside.with_name(f"{beside.stem}-{name}.{'svg' if report['kind'] == 'capacity' else 'png'}")
            figure.savefig(path)
            written.append(path)
    return written


# --- the engine ---


def _breakdown(report: Mapping[str, Any], axes: Axes) -> bool:
    runs = report["runs"]
    sections = [name for name in COLOURS if any(run["breakdown_ms"].get(name) for run in runs)]
    places = range(len(runs))
    base = [0.0] * len(runs)
    for name in sections:
        heights = [run["breakdown_ms"].get(name, 0.0) for run in runs]
        axes.bar(places, heights, 0.62, bottom=base, color=COLOURS[name], label=name)
        base = [low + height for low, height in zip(base, heights, strict=True)]
    for place, run, top in zip(places, runs, base, strict=True):
        axes.annotate(_short(top), (place, top), (0, 3), textcoords="offset points", ha="center", fontsize=9)
        if run["floor_ms"]:
            axes.hlines(run["floor_ms"], place - 0.36, place + 0.36, colors="#c4232b", linewidth=2)
    if any(run["floor_ms"] for run in runs):
        axes.plot([], [], color="#c4232b", linewidth=2, label="floor: weights / bandwidth")
    axes.set_xticks(list(places), [run["label"].replace(", ", "\n") for run in runs])
    axes.set_ylim(0, max(base) * 1.12)
    axes.set_ylabel("ms per frame" if any(run["frames"] for run in runs) else "ms per batch")
    axes.set_title("Time of a frame by section")
    _legend_outside(axes)
    return True


def _engine_throughput(report: Mapping[str, Any], axes: Axes) -> bool:
    modes = list(dict.fromkeys(run["mode"] for run in report["runs"]))
    for mode, colour in zip(modes, LINES, strict=False):
        runs = [run for run in report["runs"] if run["mode"] == mode]
        _band(axes, [run["batch"] for run in runs], [run["summary"]["audio_s_per_s"] for run in runs], mode, colour)
    _by_level(axes, sorted({run["batch"] for run in report["runs"]}), "listeners at once")
    axes.set_ylabel("audio seconds per second")
    axes.set_title("Throughput by concurrency")
    axes.legend(frameon=False)
    return True


def _engine_latency(report: Mapping[str, Any], axes: Axes) -> bool:
    modes = list(dict.fromkeys(run["mode"] for run in report["runs"]))
    for mode, colour in zip(modes, LINES, strict=False):
        runs = [run for run in report["runs"] if run["mode"] == mode and "first_audio_ms" in run["summary"]]
        for which, style in (("p50", "-"), ("p99", "--")):
            values = [run["summary"]["first_audio_ms"][which] for run in runs]
            axes.plot([r["batch"] for r in runs], values, style, marker="o", color=colour, label=f"{mode}, {which}")
    _by_level(axes, sorted({run["batch"] for run in report["runs"]}), "listeners, all at once")
    axes.set_ylabel("first audio, ms")
    axes.set_ylim(bottom=0)
    axes.set_title("First audio by load")
    axes.legend(frameon=False)
    return True


# --- a server ---


def _serve_latency(kind: str, axis: str) -> Plot:
    def plot(report: Mapping[str, Any], axes: Axes) -> bool:
        runs = [r for r in report["runs"] if r["load"] == kind and "first_playable_ms" in r["summary"]]
        if not runs:
            return False
        levels = [run["level"] for run in runs]
        for which, colour in zip(("p50", "p95", "p99"), LINES, strict=False):
            values = [run["summary"]["first_playable_ms"][which] for run in runs]
            axes.plot(levels, values, marker="o", color=colour, label=which)
            axes.annotate(_short(values[-1]), (levels[-1], values[-1]), (6, 0), textcoords="offset points", va="center")
        for run in runs:
            if run["underruns"]:
                top = run["summary"]["first_playable_ms"]["p99"]
                note = f"{run['underruns']} underruns"
                axes.annotate(
                    note, (run["level"], top), (0, 8), textcoords="offset points", ha="center", color="#c4232b"
                )
        _by_level(axes, levels, axis)
        axes.set_ylabel("first playable sample, ms")
        axes.set_ylim(0, axes.get_ylim()[1] * 1.08)
        axes.set_title("Latency by load")
        _legend_outside(axes)
        return True

    return plot


def _serve_throughput(report: Mapping[str, Any], axes: Axes) -> bool:
    runs = [run for run in report["runs"] if run["load"] in ("closed", "burst")]
    if not runs:
        return False
    for kind, colour in zip(("closed", "burst"), LINES, strict=False):
        some = [run for run in runs if run["load"] == kind]
        if some:
            levels, values = [run["level"] for run in some], [run["audio_s_per_s"] for run in some]
            axes.plot(levels, values, marker="o", color=colour, label=kind)
            for level, value in zip(levels, values, strict=True):
                axes.annotate(_short(value), (level, value), (0, 7), textcoords="offset points", ha="center")
    _by_level(axes, sorted({run["level"] for run in runs}), "listeners at once")
    axes.set_ylabel("audio seconds per second")
    axes.set_ylim(0, max(run["audio_s_per_s"] for run in runs) * 1.15)
    axes.set_title("Throughput by concurrency")
    axes.legend(frameon=False)
    return True


# --- quality ---


def _error_rates(report: Mapping[str, Any], axes: Axes) -> bool:
    run = report["runs"][0]
    found = sorted((value * 100 for value in run["samples"].get("wer", ())), reverse=True)
    if not found:
        return False
    axes.bar(range(1, len(found) + 1), found, color=LINES[0], width=0.8)
    axes.axhline(run["wer"] * 100, color="#c4232b", linewidth=1.5, label=f"all words: {run['wer'] * 100:.2f}%")
    axes.axhline(50, color=INK, linewidth=1, linestyle=":", label="outlier: above 50%")
    axes.set_ylim(0, max(60.0, found[0] * 1.1))
    axes.set_xlabel("prompts, worst first")
    axes.set_ylabel("word error rate, %")
    axes.set_title(f"Word errors of {len(found)} prompts, {run['label']}")
    axes.legend(frameon=False)
    return True


# --- capacity ---


def _first_audio_by_replicas(report: Mapping[str, Any], axes: Axes) -> bool:
    runs = [run for run in report["runs"] if "first_audio_ms" in run["summary"]]
    if not runs:
        return False
    sizes = [run["replicas"] for run in runs]
    for which, colour in zip(("p50", "p95", "p99"), LINES, strict=False):
        values = [run["summary"]["first_audio_ms"][which] for run in runs]
        axes.plot(sizes, values, marker="o", color=colour, label=which)
    if goal := report["config"]["goal"]:
        axes.axhline(goal["first_audio_s"] * 1e3, color="#c4232b", linewidth=1.5, label="goal for p99")
    axes.set_yscale("log")
    axes.set_xlabel("replicas")
    axes.set_ylabel("first audio, ms")
    axes.set_title(f"First audio of {report['config']['listeners']:,.0f} listeners by replicas")
    axes.legend(frameon=False)
    return True


def _replicas_over_time(report: Mapping[str, Any], axes: Axes) -> bool:
    run = next((run for run in report["runs"] if run["meets_goal"]), report["runs"][-1])
    minutes = [at_s / 60 for at_s, _, _ in run["timeline"]]
    places = report["config"]["places"]
    capacity = [replicas * places for _, replicas, _ in run["timeline"]]
    axes.step(minutes, capacity, where="post", color=LINES[0], label="places of all replicas")
    axes.plot(minutes, [load for _, _, load in run["timeline"]], color=LINES[1], label="requests, spoken and queued")
    axes.set_xlabel("minutes")
    axes.set_ylabel("requests at once")
    axes.set_ylim(bottom=0)
    axes.set_title(f"Load and places, {run['label']}")
    axes.legend(frameon=False)
    return True


# --- common ---


def _band(axes: Axes, levels: Sequence[float], found: Sequence[Mapping[str, float]], label: str, colour: str) -> None:
    middle = [summary["p50"] for summary in found]
    axes.fill_between(
        levels, [s["min"] for s in found], [s["max"] for s in found], color=colour, alpha=0.18, linewidth=0
    )
    axes.plot(levels, middle, marker="o", color=colour, label=label)
    for level, value in zip(levels, middle, strict=True):
        axes.annotate(_short(value), (level, value), (0, 7), textcoords="offset points", ha="center", fontsize=9)
    axes.set_ylim(0, max(axes.get_ylim()[1], max(s["max"] for s in found) * 1.15))


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _by_level(axes: Axes, levels: Sequence[float], label: str) -> None:
    if len(levels) > 1 and max(levels) >= 8 * min(levels):
        axes.set_xscale("log", base=2)
    axes.set_xticks(list(levels), [f"{level:g}" for level in levels], fontsize=10 if len(levels) < 5 else 7)
    axes.minorticks_off()
    axes.set_xlabel(label)


def _legend_outside(axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], labels[::-1], frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _finish(figure: Figure, axes: Axes, report: Mapping[str, Any]) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.title.set_fontsize(13)
    machine, config = report["machine"], report["config"]
    where = machine["gpus"][0] if machine["gpus"] else f"{machine['cpu']}, {machine['cores']} cores"
    what = config.get("subject") or config.get("url") or config.get("family")
    figure.supxlabel(
        f"{what} on {where}; {report['created'][:10]}; rhapsode {report['versions']['rhapsode']}", fontsize=8
    )


PLOTS: dict[str, dict[str, Plot]] = {
    "engine": {"breakdown": _breakdown, "throughput": _engine_throughput, "latency": _engine_latency},
    "serve": {
        "latency-closed": _serve_latency("closed", "listeners at once (closed loop)"),
        "latency-open": _serve_latency("open", "requests per second (open loop, Poisson)"),
        "latency-burst": _serve_latency("burst", "listeners, all at once (burst)"),
        "throughput": _serve_throughput,
    },
    "quality": {"wer": _error_rates},
    "capacity": {"first-audio": _first_audio_by_replicas, "over-time": _replicas_over_time},
}
