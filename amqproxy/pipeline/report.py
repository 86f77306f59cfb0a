"""Self-contained HTML report on a time span: traffic, latencies, top talkers, errors, findings, anomalies.

answers to `REPORTED` and to named questions → `report_page` → pieces of a page

Plots are made by Plotly, whose script is in the page. Names and texts from messages occur in tables only, escaped by
`shown`; plots contain figures and constant words. As a second defence, the page's content security policy allows only
these two scripts, by digest, and no loading.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from importlib import resources
from typing import TYPE_CHECKING, Any

import msgspec

from amqproxy.export.html_report import STYLE
from amqproxy.export.shown_text import byte_count, duration, moment, number, shown
from amqproxy.pipeline.questions import PANELS, QUESTIONS
from amqproxy.pipeline.questions import text as answer_text
from amqproxy.pipeline.questions.question import DAY, Question, Value
from amqproxy.pipeline.questions.span import Span

if TYPE_CHECKING:
    import pyarrow as pa

Ask = Callable[[Question, Mapping[str, Value]], "pa.Table"]
"""Answers a question about the reported span."""

BINS = 360
"""Maximum number of points of a plot over time."""

ROWS = 20
"""Maximum number of rows of an answer."""

MAX_WORD = 40
"""Characters up to which a word is not broken, so that a column of short names stays readable."""

MAX_ABOUT = 4000
"""Maximum characters of a paragraph about an answer."""

MINUTE_NS = 60 * 1_000_000_000

TIMELINE = """
SELECT unix_micros(r.time) AS minute_us, r.published AS published, r.published_bytes AS published_bytes,
       r.delivered AS delivered, r.delivered_bytes AS delivered_bytes, r.errors AS errors, r.open AS open,
       r.confirm_p50_ns AS confirm_p50_ns, r.confirm_p99_ns AS confirm_p99_ns, r.ack_p50_ns AS ack_p50_ns,
       r.ack_p99_ns AS ack_p99_ns, r.transit_p50_ns AS transit_p50_ns, r.transit_p99_ns AS transit_p99_ns
FROM {rollup_minute} r WHERE r.by = 'all' ORDER BY minute_us
"""
TOP = """
SELECT r.name AS name, r.virtual_host AS virtual_host, CAST(sum(r.published) AS BIGINT) AS published,
       CAST(sum(r.delivered) AS BIGINT) AS delivered,
       CAST(sum(r.published_bytes + r.delivered_bytes) AS BIGINT) AS bytes,
       CAST(sum(r.redelivered) AS BIGINT) AS redelivered, CAST(sum(r.errors) AS BIGINT) AS errors,
       max(r.confirm_p99_ns) AS confirm_p99_ns, max(r.ack_p99_ns) AS ack_p99_ns
FROM {rollup_minute} r WHERE r.by = '<by>' GROUP BY r.name, r.virtual_host
ORDER BY sum(r.published) + sum(r.delivered) DESC, name, virtual_host
"""
ANOMALIES = """
SELECT a.time AS hour, a.measure AS measure, a.text AS text, a.virtual_host AS virtual_host, a.score AS score,
       a.evidence AS evidence
FROM {anomalies} a ORDER BY abs(a.score) DESC, hour, text
"""


def _reported(name: str, sql: str, limit: int = 15) -> Question:
    return Question(name=name, about=name, sql=sql, limit=limit)


TALKERS = {each: _reported(f"top-{each}", TOP.replace("<by>", each)) for each in ("exchange", "queue", "user")}
REPORTED = {
    "timeline": _reported("timeline", TIMELINE, 1_000_000),
    "anomalies": _reported("anomalies", ANOMALIES, 30),
    **{each.name: each for each in TALKERS.values()},
}
"""Queries of the report besides named questions."""

NAMED: tuple[tuple[str, dict[str, Value]], ...] = (
    *((name, {}) for name in PANELS),
    ("findings", {}),
    ("errors", {}),
    ("poison", {}),
    ("unread-queues", {}),
    ("slower-consumers", {}),
    ("slow-confirms", {}),
    ("transit", {}),
    ("clocks", {}),
    ("capacity", {"by": "user"}),
)
"""Named questions of the report, each with its heading."""


class Series(msgspec.Struct, frozen=True):
    """A line of a plot: its name, the index of its colour, and its values, `None` where there are none."""

    name: str
    colour: int
    values: Sequence[float | None]


class Plot(msgspec.Struct, frozen=True):
    """A plot over time: `times` in milliseconds since 1970."""

    title: str
    unit: str
    times: Sequence[float]
    series: Sequence[Series]


STYLE_OF_PLOTS = """
.plot{height:260px;margin-top:.3rem}.js-plotly-plot .plotly .modebar{opacity:.6}
td.long{min-width:16rem}.wide td.mono{min-width:0}
p.about{max-width:90ch;margin:.2rem 0 .5rem}
td.word{overflow-wrap:normal}
td.time{white-space:nowrap;font-variant-numeric:tabular-nums}.ask{color:var(--soft);font-size:.85em}
"""

SCRIPT = """
"use strict";
const plots = JSON.parse(document.getElementById("plots").textContent);
const dark = window.matchMedia("(prefers-color-scheme: dark)");
function draw() {
  const style = getComputedStyle(document.documentElement);
  const colour = name => style.getPropertyValue("--" + name).trim();
  plots.forEach((plot, place) => {
    const rule = colour("rule");
    const axis = {gridcolor: rule, linecolor: rule, zerolinecolor: rule, automargin: true};
    const lines = plot.series.map(each => ({
      type: "scatter", mode: "lines", name: each.name, x: plot.times, y: each.values, connectgaps: false,
      line: {color: colour("c" + each.colour), width: 1.6, shape: "hv"},
      hovertemplate: "%{y:,.4~g} " + plot.unit + "<extra>" + each.name + "</extra>"}));
    Plotly.react(document.getElementById("plot" + place), lines, {
      font: {color: colour("soft"), size: 11, family: "system-ui, sans-serif"},
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "x unified",
      hoverlabel: {bgcolor: colour("card"), bordercolor: colour("rule"), font: {color: colour("fg")}},
      margin: {l: 48, r: 12, t: 8, b: 24}, showlegend: true, legend: {orientation: "h", y: 1.16, x: 0},
      xaxis: {...axis, type: "date", title: {text: "UTC", standoff: 6}},
      yaxis: {...axis, rangemode: "tozero", title: {text: plot.unit}, exponentformat: "SI"},
    }, {responsive: true, displaylogo: false, modeBarButtonsToRemove: ["lasso2d", "select2d", "sendDataToCloud"]});
  });
}
dark.addEventListener("change", draw);
draw();
"""


def report_page(ask: Ask, span: Span, tables: str) -> Iterator[str]:
    """Yield the page in pieces; `tables` is the name of the tables for people."""
    timeline = ask(REPORTED["timeline"], {}).to_pylist()
    anomalies = ask(REPORTED["anomalies"], {})
    answers = {name: _first(ask(QUESTIONS[name], options)) for name, options in NAMED}
    library = plotly()
    title = f"AMQP in {shown(tables, 120)}"
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"script-src {_digest(library)} {_digest(SCRIPT)}"
    )
    yield (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" '
        f'content="{policy}"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta name="generator" content="amqproxy"><title>{title}</title><style>{STYLE}{STYLE_OF_PLOTS}</style>'
        f'</head>\n<body><header><h1>{title}</h1><p class="soft">{moment(span.start_ns)} to {moment(span.end_ns)} UTC, '
        f"{_length(span)}</p></header>\n<main>"
    )
    yield _tiles(timeline, answers, anomalies)
    plots = _plots(timeline, span)
    yield '<h2>Traffic and latencies</h2><div class="grid2">'
    for place, plot in enumerate(plots):
        yield f'<figure><figcaption>{plot.title}</figcaption><div class="plot" id="plot{place}"></div></figure>'
    yield "</div>\n"
    yield f"<h2>Anomalies</h2>{_anomalies(anomalies)}"
    yield "<h2>Top talkers</h2>"
    yield '<div class="grid2">'
    for by, question in TALKERS.items():
        yield _table(f"by {by}", ask(question, {}))
    yield "</div>"
    for name, _ in NAMED:
        yield f"<h2>{shown(_capital(QUESTIONS[name].title))}</h2>{_about(QUESTIONS[name])}"
        yield _table(f"ask {name}", answers[name])
    yield f'</main>\n<script type="application/json" id="plots">{_json(plots)}</script>\n<script>{library}</script>\n'
    yield f"<script>{SCRIPT}</script></body></html>\n"


def _first(answer: pa.Table) -> pa.Table:
    """Return the first rows; slicing a table without columns would produce rows."""
    return answer.slice(0, ROWS) if answer.num_rows > ROWS else answer


def plotly() -> str:
    """Return Plotly's script in a form that a page can contain."""
    try:
        package = resources.files("plotly")
    except ModuleNotFoundError as missing:
        raise ImportError("A report needs Plotly: pip install 'amqproxy[pipeline]'", name="plotly") from missing
    return (package / "package_data" / "plotly.min.js").read_text(encoding="utf-8").replace("</script", "<\\/script")


def _length(span: Span) -> str:
    seconds = (span.end_ns - span.start_ns) / 1e9
    if seconds < 2 * DAY:
        return duration(seconds) if seconds < 2 * 3600 else f"{seconds / 3600:.3g} hours"
    return f"{seconds / DAY:.3g} days"


def _digest(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _json(plots: Sequence[Plot]) -> str:
    text = msgspec.json.encode(plots).decode()
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


# --- figures


def _tiles(timeline: Sequence[Mapping[str, Any]], answers: Mapping[str, pa.Table], anomalies: pa.Table) -> str:
    total = {name: sum(each[name] or 0 for each in timeline) for name in _COUNTS}
    found = sum(each["times"] for each in answers["findings"].to_pylist())
    busy = {each["minute_us"] for each in timeline if each["published"] or each["delivered"]}
    tiles = [
        (number(total["published"]), "messages published"),
        (number(total["delivered"]), "messages delivered"),
        (byte_count(total["published_bytes"] + total["delivered_bytes"]), "of bodies"),
        (number(total["errors"]), "errors"),
        (number(found), "findings"),
        (number(anomalies.num_rows), "anomalies"),
        (number(len(busy)), "minutes with traffic"),
    ]
    shown_tiles = "".join(f'<div class="tile"><b>{value}</b><span>{what}</span></div>' for value, what in tiles)
    return f'<div class="tiles">{shown_tiles}</div>\n'


_COUNTS = ("published", "delivered", "published_bytes", "delivered_bytes", "errors")


def _plots(timeline: Sequence[Mapping[str, Any]], span: Span) -> list[Plot]:
    """Return the plots over the recorded part of the span, in at most `BINS` bins of whole minutes.

    A bin without rows has no value.
    """
    minutes = [each["minute_us"] * 1000 // MINUTE_NS for each in timeline]
    recorded = max(minutes) - min(minutes) + 1 if minutes else 1
    width = -(-recorded // BINS) * MINUTE_NS
    first = min(minutes) * MINUTE_NS // width if minutes else span.start_ns // width
    bins: dict[int, list[Mapping[str, Any]]] = {}
    for each in timeline:
        bins.setdefault(each["minute_us"] * 1000 // width - first, []).append(each)
    places = range(max(bins, default=-1) + 2)  # one more, as the end of the last step
    times = [(first + place) * width / 1e6 for place in places]
    seconds = width / 1e9

    def rate(name: str) -> list[float | None]:
        return [sum(row[name] or 0 for row in bins[place]) / seconds if place in bins else None for place in places]

    def count(name: str) -> list[float | None]:
        return [sum(row[name] or 0 for row in bins[place]) if place in bins else None for place in places]

    def milliseconds(name: str) -> list[float | None]:
        """Return the maximum of each bin's minutes."""
        known = {place: [row[name] for row in rows if row[name] is not None] for place, rows in bins.items()}
        return [max(known[place]) / 1e6 if known.get(place) else None for place in places]

    return [
        Plot(
            "Messages",
            "messages/s",
            times,
            [Series("published", 0, rate("published")), Series("delivered", 1, rate("delivered"))],
        ),
        Plot(
            "Bodies",
            "bytes/s",
            times,
            [Series("published", 0, rate("published_bytes")), Series("delivered", 1, rate("delivered_bytes"))],
        ),
        Plot(
            "Publish to confirm",
            "ms",
            times,
            [Series("median", 0, milliseconds("confirm_p50_ns")), Series("99 %", 3, milliseconds("confirm_p99_ns"))],
        ),
        Plot(
            "Delivery to acknowledgement",
            "ms",
            times,
            [Series("median", 0, milliseconds("ack_p50_ns")), Series("99 %", 3, milliseconds("ack_p99_ns"))],
        ),
        Plot(
            "Publish to delivery",
            "ms",
            times,
            [Series("median", 0, milliseconds("transit_p50_ns")), Series("99 %", 3, milliseconds("transit_p99_ns"))],
        ),
        Plot("Errors", "errors", times, [Series("errors", 4, count("errors"))]),
    ]


# --- tables


def _anomalies(found: pa.Table) -> str:
    if not found.num_rows:
        return '<p class="none">none</p>'
    rows = []
    for each in found.to_pylist():
        hour = answer_text.shown("hour", each["hour"])[:16]
        rows.append(
            f'<tr><td class="mono">{shown(hour)}</td><td>{shown(each["measure"] or "")}</td>'
            f'<td class="long">{shown(each["text"] or "")}<br><code class="ask">{shown(question_of(each["evidence"]))}'
            f'</code></td><td class="n">{number(round(each["score"], 1))}</td></tr>'
        )
    return (
        '<figure><div class="wide"><table><thead><tr><th>hour (UTC)</th><th>measure</th><th>what, and what to ask</th>'
        f'<th class="n">score</th></tr></thead><tbody>{"".join(rows)}</tbody></table></div></figure>'
    )


def question_of(evidence: str | None) -> str:
    """Return the command that shows more about an anomaly."""
    found = json.loads(evidence) if evidence else {}
    if not found.get("ask"):
        return ""
    given = found.get("options") or {}
    options = "".join(f" --{name.replace('_', '-')} {shlex.quote(value)}" for name, value in given.items())
    return f"pipeline ask {found['ask']}{options} --start {found.get('start', '')} --last {found.get('last', '1h')}"


def _capital(title: str) -> str:
    return title[:1].upper() + title[1:]


def _about(question: Question) -> str:
    """Return the explanation of an answer as paragraphs."""
    paragraphs = question.about.strip().split("\n\n")[1:]
    shown_paragraphs = (_CODE.sub(r"<code>\1</code>", shown(" ".join(each.split()), MAX_ABOUT)) for each in paragraphs)
    return "".join(f'<p class="about soft">{each}</p>' for each in shown_paragraphs)


_CODE = re.compile("`([^`]*)`")


def _table(title: str, answer: pa.Table) -> str:
    if not answer.num_rows:
        return f'<figure><figcaption>{shown(title)}</figcaption><p class="none">none</p></figure>'
    kinds = [str(kind).startswith(("int", "float", "double")) for kind in answer.schema.types]
    rows = answer.to_pylist()
    names = [name for name in answer.column_names if any(row[name] is not None for row in rows)]
    is_number = dict(zip(answer.column_names, kinds, strict=True))
    heads = "".join(
        f"<th{' class=n' if is_number[name] else ''}>{shown(answer_text.head(name))}</th>" for name in names
    )
    lines = "".join(f"<tr>{''.join(_cell(name, row[name], is_number[name]) for name in names)}</tr>" for row in rows)
    return (
        f'<figure><figcaption>{shown(title)}</figcaption><div class="wide"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div></figure>\n"
    )


def _cell(name: str, value: Any, is_number: bool) -> str:
    text = shown(value) or '<span class="soft">(empty)</span>' if isinstance(value, str) else None
    if text is None:
        text = shown(answer_text.shown(name, value))
    if isinstance(value, datetime):
        return f'<td class="time">{text.partition(".")[0]}</td>'
    style = "n" if is_number else "long" if name in ("text", "example", "remedy") else "mono"
    if style == "mono" and isinstance(value, str) and len(value) <= MAX_WORD:
        style = "mono word"
    return f'<td class="{style}">{text}</td>'
