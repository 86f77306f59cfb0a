"""Text format of the responses of the control socket."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from amqproxy.taps.text import pairs, printable, value_text

Entry = Mapping[str, Any]


def rules(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield a line for each rule, with its action and its hits; another with its last failure."""
    for entry in entries:
        shadow = ", in shadow" if entry["mode"] == "shadow" else ""
        errors = f", failed {entry['errors']} times" if entry["errors"] else ""
        hits = entry["shadow_hits"] if entry["mode"] == "shadow" else entry["hits"]
        counted = entry.get("verdicts", {}).items()
        verdicts = [f"{count} {verdict}" for verdict, count in counted if verdict not in ("shadow", "failed")]
        named = f" ({', '.join(verdicts)})" if verdicts else ""
        ends_at = entry.get("ends_at")
        until = "" if ends_at is None else f", ends in {max(0.0, ends_at - time.time()):.0f} s"
        yield f"{value_text(entry['name'])}  {entry['action']}{shadow}{until}: {hits} hits{named}{errors}"
        if entry.get("last_failure"):
            yield f"    last: {value_text(entry['last_failure'])}"


def sessions(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield a line for each session, with its client, its state and its channels."""
    for entry in entries:
        known = {name: entry[name] for name in ("user", "vhost", "product", "name")}
        held = f", {entry['held']} held" if entry["held"] else ""
        if entry.get("paused_channels"):
            held += f", paused: {', '.join(map(str, entry['paused_channels']))}"
        yield (
            f"#{entry['session']} {entry['connection']} {entry['state']}, {entry['channels']} channels{held}  "
            + pairs(known)
        )


def held(entry: Entry) -> Iterator[str]:
    """Yield the lines of a held command, beginning with its session and number."""
    left = max(0.0, entry["until"] - time.time())
    arrow = "→" if entry["from"] == "client" else "←"
    yield (
        f"{entry['session']} {entry['number']}  {value_text(entry['rule'])}, "
        f"{'goes on' if entry['on_timeout'] == 'pass' else 'is refused'} in {left:.0f} s"
    )
    yield f"    {arrow} ch {entry['channel']}  {entry['method']}  {pairs(entry['arguments'])}".rstrip()
    if entry.get("properties"):
        yield f"      {pairs(entry['properties'])}"
    if entry.get("size") is not None:
        form, shown = "", entry.get("body", "")
        if "decoded" in entry:
            form, shown = f" of {printable(entry['decoded']['form'])}", entry["decoded"]["value"]
        yield f"      {entry['size']} bytes{form}: {value_text(shown)}"
    if entry["will"] != "pass":
        yield "      a rule behind lets it go no further"
