"""The figures of captures as one self-contained HTML page: no script, no request, dark and light.

All texts from captures pass `shown`. If one ever did not, the page's content security policy would still keep it from
running or loading anything.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from amqproxy.export.charts import Bar, Mark, Series, histogram, time_chart
from amqproxy.export.shown_text import byte_count, duration, moment, number, shown
from amqproxy.taps.findings.finding import Finding, Severity
from amqproxy.taps.text import counted
from amqproxy.views.connection_list import ConnectionFigures, ConnectionList
from amqproxy.views.measurements import SHORT_INTERVALS, Measurements
from amqproxy.views.statistics_collector import (
    ACKED,
    CLIENT_BYTES,
    CONFIRMED,
    DELIVERED,
    PUBLISHED,
    REFUSED,
    SERVER_BYTES,
    Collector,
)
from amqproxy.views.statistics_text import error_text
from amqproxy.views.top_table import TopTable

TOP = 15
"""Listed names of each kind."""

NOTHING = "There is no AMQP 0-9-1 in it."

STYLE = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1c2430;--soft:#5b6675;--rule:#dfe4ea;--card:#f6f8fa;
--c0:#2563eb;--c1:#0d9488;--c2:#7c3aed;--c3:#d97706;--c4:#dc2626;--error:#b91c1c;--warning:#a15c07;--info:#1d4ed8}
@media(prefers-color-scheme:dark){:root{--bg:#11161d;--fg:#dde4ec;--soft:#93a0b0;--rule:#2b3542;--card:#18202a;
--c0:#6ea8fe;--c1:#3cc9b8;--c2:#b69cff;--c3:#f5b14c;--c4:#ff7b72;--error:#ff8f87;--warning:#f0b453;--info:#8cb8ff}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.5rem;max-width:1240px;background:var(--bg);color:var(--fg);
font:.94rem/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
h1{font-size:1.5rem;margin:0 0 .2rem}h2{font-size:1.15rem;margin:2.2rem 0 .6rem}
p{margin:.3rem 0}.soft,.none{color:var(--soft)}
code,.mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.9em;overflow-wrap:anywhere}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(130px,1fr));gap:.6rem;margin:1.1rem 0}
.tile{background:var(--card);border:1px solid var(--rule);border-radius:8px;padding:.55rem .8rem}
.tile b{display:block;font-size:1.3rem;font-weight:600;font-variant-numeric:tabular-nums}
.tile span{color:var(--soft);font-size:.85rem}
.grid2{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(440px,100%),1fr));gap:1rem;align-items:start}
figure{margin:0;background:var(--card);border:1px solid var(--rule);border-radius:8px;padding:.7rem .8rem}
figcaption{font-weight:600;display:flex;flex-wrap:wrap;gap:.2rem 1rem;justify-content:space-between}
figcaption>span{font-weight:400;font-size:.85rem;display:flex;flex-wrap:wrap;gap:.1rem .8rem}
.key::before{content:"";display:inline-block;width:.7em;height:.7em;border-radius:2px;margin-right:.35em;
background:var(--c)}
svg{display:block;width:100%;height:auto;margin-top:.3rem}
svg text{fill:var(--soft);font-size:11px;font-family:inherit}
.c0{--c:var(--c0)}.c1{--c:var(--c1)}.c2{--c:var(--c2)}.c3{--c:var(--c3)}.c4{--c:var(--c4)}
.grid{stroke:var(--rule)}.tick{stroke:var(--soft)}.line{fill:none;stroke:var(--c);stroke-width:1.6}
.area{fill:var(--c);opacity:.1}.bar{fill:var(--c)}.mark{stroke:var(--fg);stroke-width:1.3;stroke-dasharray:4 3}
.mid{text-anchor:middle}.end{text-anchor:end}
.wide{overflow-x:auto}.wide td.mono{min-width:11rem}
table{border-collapse:collapse;width:100%;font-size:.9rem}
caption{text-align:left;font-weight:600;padding:.2rem 0}
th{text-align:left;color:var(--soft);font-weight:500}
th,td{padding:.28rem .55rem;border-bottom:1px solid var(--rule);vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
td.share{width:18%;min-width:60px}td.share i{display:block;height:.75em;margin-top:.3em;border-radius:2px;
background:var(--c0);min-width:1px}
.bad{color:var(--error)}
.finding{border:1px solid var(--rule);border-left:4px solid var(--s);border-radius:6px;background:var(--card);
padding:.55rem .8rem;margin:.6rem 0}
.finding h3{margin:0;font-size:1rem}.finding h3 em{color:var(--s);font-style:normal}
.error{--s:var(--error)}.warning{--s:var(--warning)}.info{--s:var(--info)}
.finding ul{margin:.3rem 0;padding-left:1.1rem}
@media print{:root{color-scheme:light;--bg:#fff;--fg:#000;--soft:#444;--rule:#bbb;--card:#fff;--c0:#2563eb;
--c1:#0d9488;--c2:#7c3aed;--c3:#d97706;--c4:#dc2626;--error:#b91c1c;--warning:#8a4b00;--info:#1d4ed8}
html{font-size:10.5px}body{padding:0;max-width:none}h2,figcaption{break-after:avoid}.tile,tr,svg,.finding{break-inside:avoid}
.wide{overflow:visible}.grid2{display:block;columns:2;column-gap:1rem}.grid2 figure{margin-bottom:1rem}
.bar,.area,td.share i,.key::before{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
"""

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def html_report(found: Collector, captures: Sequence[str], selection: str = "") -> Iterator[str]:
    """Yield the page in pieces; `selection` describes the selection, unless it is everything."""
    names = ", ".join(shown(each, 120) for each in captures[:3])
    title = f"{names}{f' and {len(captures) - 3} more' if len(captures) > 3 else ''}"
    yield (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" '
        f'content="{POLICY}"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta name="generator" content="amqproxy"><title>AMQP in {title}</title>'
        f"<style>{STYLE}</style></head>\n<body><header><h1>AMQP in {title}</h1>"
    )
    yield f'<p class="soft">{_span(found)}</p>'
    if selection:
        yield f"<p>Selected: <code>{shown(selection)}</code></p>"
    yield f"</header>\n<main>{_tiles(found)}"
    yield from _charts(found)
    yield from _names(found)
    yield from _findings(found)
    yield from _connections(found.listed_connections)
    yield "</main></body></html>\n"


def _span(found: Collector) -> str:
    if found.start_ns is None or found.end_ns is None:
        return "No frame of AMQP 0-9-1 is selected." if len(found.listed_connections) else NOTHING
    seconds = (found.end_ns - found.start_ns) / 1e9
    return f"{moment(found.start_ns)} to {moment(found.end_ns)} UTC, {duration(seconds)}"


def _tiles(found: Collector) -> str:
    errors = sum(count for (_, severity), count in found.findings.items() if severity == Severity.ERROR)
    tiles = [
        (number(found.connections), "connections"),
        (number(sum(frames for frames, _, _ in found.frames.values())), "frames"),
        (number(found.totals["published"]), "messages published"),
        (number(found.totals["delivered"]), "messages delivered"),
        (byte_count(found.published_bytes.total + found.delivered_bytes.total), "of bodies"),
        (number(found.findings.total()), "findings"),
        (number(errors), "of them errors"),
    ]
    if found.lost_bytes:
        tiles.append((byte_count(found.lost_bytes), "not in the capture"))
    return (
        '<div class="tiles">'
        + "".join(f'<div class="tile"><b>{value}</b><span>{what}</span></div>' for value, what in tiles)
        + "</div>"
    )


# --- charts


def _charts(found: Collector) -> Iterator[str]:
    start_ns, amounts = found.timeline.amounts()
    width_ns = found.timeline.interval_ns
    starts = [start_ns + place * width_ns for place in range(len(amounts[0]))]

    def series(name: str, colour: int, place: int) -> Series:
        return Series(name, colour, [amount / (width_ns / 1e9) for amount in amounts[place]])

    yield '<h2>Over time</h2><div class="grid2">'
    messages = [
        series("published", 0, PUBLISHED),
        series("confirmed", 1, CONFIRMED),
        series("delivered", 2, DELIVERED),
        series("acked", 3, ACKED),
        series("nacked, rejected, returned", 4, REFUSED),
    ]
    yield time_chart("Messages", starts, width_ns, messages, "a second")
    sent = [series("from clients", 0, CLIENT_BYTES), series("from the broker", 2, SERVER_BYTES)]
    yield time_chart("Bytes of frames", starts, width_ns, sent, "a second")
    yield '</div>\n<h2>How long it took</h2><div class="grid2">'
    yield _latencies("Publish to confirm", found.confirm_seconds, 1)
    yield _latencies("Delivery to ack", found.ack_seconds, 3)
    yield _latencies("Protocol header to connection.open-ok", found.open_seconds, 0)
    yield _requests(found.requests)
    yield '</div>\n<h2>How large it was</h2><div class="grid2">'
    yield _sizes("Bodies published", found.published_bytes, 0)
    yield _sizes("Bodies delivered", found.delivered_bytes, 2)
    yield "</div>\n"


def _latencies(title: str, measured: Measurements, colour: int) -> str:
    if not measured.count:
        return histogram(title, [])
    intervals = measured.intervals(SHORT_INTERVALS)
    bars = [Bar("more" if bound is None else f"≤ {duration(bound)}", count) for bound, count in intervals]
    figures = {"median": 50, "95 %": 95, "99 %": 99, "most": 100}
    marks = [
        Mark(_place(intervals[0][0], value), f"{name} {duration(value)}")
        for name, value in ((name, measured.percentile(percent)) for name, percent in figures.items())
    ]
    return histogram(f"{title}: {number(measured.count)}", bars, marks, colour=colour)


def _place(first: float | None, seconds: float) -> float:
    """Return the position of a value along the bars, where `first` is the upper bound of the first bar."""
    bounds = SHORT_INTERVALS
    place = bisect_left(bounds, seconds)
    before = place - (len(bounds) if first is None else bounds.index(first))
    if place < 2 or place == len(bounds):
        return before + 0.5  # one side has no bound
    low, high = bounds[place - 1], bounds[place]
    return before + math.log(seconds / low) / math.log(high / low)


def _sizes(title: str, measured: Measurements, colour: int) -> str:
    if measured.count:
        title += f": {number(measured.count)}, mean {byte_count(measured.mean)}, at most {byte_count(measured.most)}"
    bars = [
        Bar("more" if bound is None else f"≤ {byte_count(bound)}" if bound else "0", count)
        for bound, count in measured.intervals()
    ]
    return histogram(title, bars, colour=colour)


def _requests(requests: Mapping[str, Measurements]) -> str:
    ranked = sorted(requests.items(), key=lambda each: (-each[1].count, each[0]))
    rows = [
        (name, [number(each.count), *map(duration, (each.percentile(50), each.percentile(99), each.most))])
        for name, each in ranked
    ]
    return _table("Request to reply", "request", ("count", "median", "99 %", "most"), rows)


# --- tables


def _names(found: Collector) -> Iterator[str]:
    yield '<h2>Who and where</h2><div class="grid2">'
    yield _top("Exchanges", found.top_exchanges, ("published", "bytes"), unnamed="(default exchange)")
    yield _top("Routing keys", found.top_routing_keys, ("published", "bytes"))
    yield _top("Queues", found.top_queues, ("delivered", "bytes", "redelivered"))
    heads = ("bytes", "frames", "published", "delivered")
    yield _top("Users", found.top_users, heads)
    yield _top("Connections", found.top_connections, heads)
    outcomes = [(OUTCOMES[name], count) for name, count in found.totals.most_common() if name in OUTCOMES and count]
    yield _counts("What became of messages", outcomes)
    errors = [(error_text(*key), count) for key, count in found.errors.most_common(TOP)]
    yield _counts("Errors", errors, is_bad=True)
    yield "</div>\n"


OUTCOMES = {
    "sent": "published without confirms",
    "confirmed": "publishes confirmed",
    "nacked": "publishes nacked",
    "committed": "publishes committed",
    "rolled_back": "publishes rolled back",
    "returned": "publishes returned",
    "open_publishes": "publishes not settled when their channel ended",
    "auto_acked": "deliveries without acknowledgement",
    "browsed": "deliveries that were browsed",
    "acked": "deliveries acked",
    "rejected": "deliveries nacked or rejected",
    "recovered": "deliveries recovered",
    "open_deliveries": "deliveries not settled when their channel ended",
    "unknown": "not known, since the beginning was not captured",
}
"""Texts of the outcomes that `MessageTotals` counts."""


def _top(
    title: str, names: TopTable[str] | TopTable[str | None], heads: Sequence[str], *, unnamed: str = "(no name)"
) -> str:
    rows = names.top(TOP)
    most = max(1, *(each.weight for _, each in rows)) if rows else 1
    lines = []
    for name, each in rows:
        counts = zip(heads, (each.weight, *each.others), strict=True)
        cells = [byte_count(count) if head == "bytes" else number(count) for head, count in counts]
        shown_name = '<span class="soft">not seen</span>' if name is None else shown(name) or unnamed
        if each.error:
            cells[0] += f" ±{byte_count(each.error) if heads[0] == 'bytes' else number(each.error)}"
        share = f'<td class="share"><i style="width:{each.weight / most * 100:.1f}%"></i></td>'
        lines.append((shown_name, cells, share))
    more = names.distinct - len(rows)
    rest = f"and {number(more)} more" if names.is_exact else "too many to count each: ± is by how much it may be less"
    return _table(title, "name", (*heads, ""), lines, rest if more else "")


def _table(
    title: str,
    name: str,
    heads: Sequence[str],
    rows: Sequence[tuple[str, Sequence[str]] | tuple[str, Sequence[str], str]],
    rest: str = "",
) -> str:
    """Render a table of figures; names are HTML already, and a row may have one more cell at its end."""
    if not rows:
        return _nothing(title)
    lines = "".join(
        f'<tr><td class="mono">{first}</td>{"".join(f"""<td class="n">{cell}</td>""" for cell in cells)}'
        f"{''.join(share)}</tr>"
        for first, cells, *share in rows
    )
    head = "".join(f'<th class="n">{each}</th>' for each in heads)
    return (
        f'<figure><figcaption>{title}</figcaption><div class="wide"><table><thead><tr><th>{name}</th>{head}</tr>'
        f"</thead><tbody>{lines}</tbody></table></div>{f'<p class=soft>{rest}</p>' if rest else ''}</figure>"
    )


def _counts(title: str, rows: Sequence[tuple[str, int]], *, is_bad: bool = False) -> str:
    if not rows:
        return _nothing(title)
    style = ' class="bad"' if is_bad else ""
    lines = "".join(f'<tr><td{style}>{shown(name)}</td><td class="n">{number(count)}</td></tr>' for name, count in rows)
    return f"<figure><figcaption>{title}</figcaption><table><tbody>{lines}</tbody></table></figure>"


def _nothing(title: str) -> str:
    return f'<figure><figcaption>{title}</figcaption><p class="none">none</p></figure>'


# --- findings


def _findings(found: Collector) -> Iterator[str]:
    yield "<h2>Findings</h2>"
    kinds = found.listed_findings.in_order()
    if not kinds:
        yield '<p class="none">none</p>'
    for kind, each in kinds:
        first = each.findings[0]
        where = counted(found.finding_connections[kind], "connection")
        yield (
            f'<section class="finding {first.severity}"><h3><em>{first.severity}</em> <code>{shown(kind)}</code> '
            f'<span class="soft">{counted(each.count, "time")} on {where}</span></h3>'
            f"<p>{shown(first.why)}</p><p>{shown(first.remedy)}</p><ul>"
        )
        for finding in each.findings:
            yield _finding(finding)
        yield f"</ul>{f'<p class=soft>and {number(each.more)} more</p>' if each.more else ''}</section>\n"


def _finding(finding: Finding) -> str:
    where = f'<a href="#c{finding.stream}">#{finding.stream}</a>'
    channel = "" if finding.channel is None else f" channel {finding.channel}"
    times = f", seen {number(finding.count)} times" if finding.count > 1 else ""
    evidence = ", ".join(
        f"{f'#{each.stream} ' if each.stream is not None else ''}{each.sender} frame {each.number}"
        for each in finding.evidence[-5:]
    )
    shows = f'<span class="soft"> (evidence: {shown(evidence)})</span>' if evidence else ""
    return f"<li>{where}{channel}{times}: {shown(finding.text)}{shows}</li>"


# --- connections


def _connections(listed: ConnectionList) -> Iterator[str]:
    yield (
        '<h2>Connections</h2><div class="wide"><table><thead><tr><th class="n">#</th><th>connection</th><th>client</th>'
        '<th>user</th><th>vhost</th><th>began (UTC)</th><th class="n">lasted</th><th class="n">frames</th>'
        '<th class="n">published</th><th class="n">delivered</th><th class="n">findings</th><th>ended</th>'
        "</tr></thead><tbody>\n"
    )
    for each in listed.in_order():
        yield _connection(each)
    yield "</tbody></table></div>"
    if listed.more:
        yield f'<p class="soft">and {number(listed.more)} more</p>'


def _connection(each: ConnectionFigures) -> str:
    vhost = '<span class="soft">unknown</span>' if each.vhost is None else shown(each.vhost)
    counts = "".join(
        f'<td class="n">{number(count)}</td>' for count in (each.frames, each.published, each.delivered, each.findings)
    )
    return (
        f'<tr id="c{each.stream}"><td class="n">{each.stream}</td><td class="mono">{shown(each.connection)}</td>'
        f"<td>{shown(each.client)}</td>"
        f"<td>{shown(each.user or '') or '<span class=soft>unknown</span>'}</td><td>{vhost}</td>"
        f'<td class="mono">{moment(each.began_ns)}</td>'
        f'<td class="n">{duration((each.ended_ns - each.began_ns) / 1e9)}</td>'
        f"{counts}<td{' class=bad' if each.has_failed else ''}>{shown(each.ending)}</td>"
        f"</tr>\n"
    )
