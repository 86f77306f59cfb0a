"""The overview of a source: rates, latencies and findings."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Query, Response

from amqproxy.dashboard.api.dependencies import SourceOf
from amqproxy.dashboard.api.responses import json_response
from amqproxy.dashboard.changes import changes
from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.metrics import LATENCY_BUCKETS

router = APIRouter(tags=["overview"])


@router.get("/sources/{source}/overview")
async def show_overview(source: SourceOf, minutes: Annotated[int, Query(ge=1, le=60)] = 60) -> Response:
    """Samples, a second each where there is a proxy: rates, gauges, latencies by bucket. And the kinds of findings.

    `bounds` are the upper bounds of the buckets in seconds; the last bucket has none. Of a capture the samples are by
    its own time, and may be longer. Before `kept_since_ns` only the history of messages is left; null means that
    all rows are kept.
    """
    activity = source.observed.activity
    if source.requests is not None:
        samples = list(source.samples)[-60 * minutes :]
    else:
        samples = activity.samples()
    return json_response(
        {
            "bounds": LATENCY_BUCKETS,
            "samples": samples,
            "findings": top_findings(source.observed.newest, source.observed.kinds),
            "rows": {"first": source.ring.first_seq, "next": source.ring.next_seq},
            "messages": source.observed.messages.next_seq,
            "kept_since_ns": {
                "frames": source.ring.kept_since_ns,
                "messages": source.observed.messages.kept_since_ns,
            },
            "lost": source.lost,
            "lost_findings": source.lost_findings,
        }
    )


@router.get("/sources/{source}/changes")
async def show_changes(source: SourceOf, minutes: Annotated[int, Query(ge=5, le=180)] = 60) -> Response:
    """The last five minutes against five minutes an hour before: figures, names that are new or gone, rates, findings.

    Of a capture, the present is its end. Unless `is_asked`, nothing was seen an hour before, and the first minutes that
    were seen are compared; `then_ns` is null while these are the present ones.
    """
    observed = source.observed
    now_ns = source.ring.newest_ns if source.requests is None else time.time_ns()
    return json_response(
        changes(observed.minutes, now_ns, minutes, observed.clients(), observed.clients(is_joined=True))
    )


def top_findings(newest: Mapping[str, Finding], kinds: Counter[str]) -> list[dict[str, object]]:
    """Return the newest finding of each kind, the most severe first, then the most frequent."""
    ranked = sorted(newest.values(), key=lambda each: (-each.severity.rank, -kinds[each.kind], each.kind))
    return [
        {
            "kind": each.kind,
            "severity": each.severity,
            "count": kinds[each.kind],
            "text": each.text,
            "why": each.why,
            "remedy": each.remedy,
            "ts_ns": each.ts_ns,
            "stream": each.stream,
        }
        for each in ranked
    ]
