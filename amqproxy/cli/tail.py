"""`amqproxy tail`: follows a running proxy."""

from __future__ import annotations

import sys
from binascii import a2b_base64
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from amqproxy.cli.control_connection import connected
from amqproxy.cli.failure import MISUSED, Failure
from amqproxy.cli.options import Filter, Findings, Flag, Header, Messages, Socket, SocketConfig
from amqproxy.cli.printing import checked_body, renderer, report_json, report_renderer

if TYPE_CHECKING:
    from amqproxy.control.control_client import ControlClient


def tail(
    *,
    socket: Socket = None,
    config: SocketConfig = None,
    messages: Messages = False,
    findings: Findings = False,
    life: str | None = None,
    filter: Filter = None,
    body: int = 0,
    since_start: Flag = False,
    json: Flag = False,
    fields: str | None = None,
    header: Header = False,
) -> None:
    """Follow a running proxy: print each frame from now on, or messages or findings, until Ctrl-C.

    The proxy never waits for the output: if that is too slow, the oldest frames are skipped and counted.

    Parameters
    ----------
    life
        Print the steps of the life of the message with this message_id, or of all messages, as their outcomes are
        known: its publish, and its deliveries on all connections. Ctrl-C prints those without an outcome.
    body
        Also print the first N bytes of each body; 1024 for --body alone.
    since_start
        Begin with the earlier traffic that the proxy still has. Needs a `ring` in [control].
    json
        Print one JSON object per line, instead of text.
    fields
        Print only these fields, separated by tabs, as `amqproxy decode --fields` does.
    """
    if filter is not None and findings and not messages:
        raise Failure("tail: --filter selects frames or messages: with --findings it needs --messages", MISUSED)
    checked_body(body)
    if life is not None:
        if messages or findings or filter is not None or body or fields is not None or header:
            raise Failure("tail: --life is a view of its own: only --json and --since-start go with it", MISUSED)
        with connected(socket, config) as proxy:
            _follow_lives(proxy, life, since_start=since_start, json=json)
        raise Failure("tail: the proxy is gone")
    what = {"frames": not (messages or findings), "messages": messages, "findings": findings}
    if header and fields is None:
        raise Failure("tail: --header is for columns: it needs --fields", MISUSED)
    heading = None
    if fields is None:
        render = _renderer(json)
    else:
        from amqproxy.cli.views import ViewOptions, chosen_fields

        chosen = chosen_fields(
            ViewOptions(messages=messages, findings=findings, json=json, body=body, header=header), fields
        )
        body, heading = chosen.body, chosen.heading
        render = _field_renderer(chosen.render)
    from amqproxy.control import RequestError

    with connected(socket, config) as proxy:
        options: dict[str, Any] = {name: True for name in what if what[name]}
        if since_start:
            options["from"] = "start"
        try:
            proxy.ask("subscribe", filter=filter, body=body, **options)
        except RequestError as error:
            if error.name == "wrong-filter":
                raise Failure(f"--filter: {error}", MISUSED) from None
            raise
        if heading is not None:
            print(heading)
        for event in proxy.events():
            if event.get("event") == "lost":
                _say_lost(event)
            elif event.get("event") == "findings-lost":
                print(
                    f"amqproxy: {event['count']} findings skipped: too many at once, or too much traffic",
                    file=sys.stderr,
                )
            elif event.get("event") == "warning":
                print(f"amqproxy: --filter: {event['text']}", file=sys.stderr)
            elif "record" in event:
                print(render(event))
                sys.stdout.flush()
    raise Failure("tail: the proxy is gone")


def _follow_lives(proxy: ControlClient, message_id: str, *, since_start: bool, json: bool) -> None:
    """Print the steps of lives as they are known, and the others at the end."""
    from amqproxy.capture.packet_decoder import PacketDecoder
    from amqproxy.capture.selection.selection import Selection
    from amqproxy.cli.terminal_lines import on_terminal
    from amqproxy.views.life_view import LifeView

    proxy.ask("subscribe", packets=True, legs="once", **({"from": "start"} if since_start else {}))
    decoder = PacketDecoder()
    view = LifeView(Selection(), message_id, json=json, follows=True, lay_out=on_terminal(str))
    try:
        for event in proxy.events():
            if event.get("event") == "lost":
                _say_lost(event)
            elif event.get("event") == "packets":
                for line in view.lines(decoder.feed(a2b_base64(event["data"]))):
                    print(line)
                sys.stdout.flush()
    finally:
        for line in view.finish():
            print(line)
        sys.stdout.flush()


def _say_lost(event: dict[str, Any]) -> None:
    print(f"amqproxy: {event['count']} skipped: the output is too slow", file=sys.stderr)


def _field_renderer(render: Callable[[bytes], list[str]]) -> Callable[[dict[str, Any]], str]:
    from amqproxy.taps.message_record import MessageRecord

    def rendered(event: dict[str, Any]) -> str:
        if event["event"] != "message":
            return render(msgspec.json.encode(event["record"]))[0]
        return render(report_json(msgspec.convert(event["record"], MessageRecord)))[0]

    return rendered


def _renderer(json: bool) -> Callable[[dict[str, Any]], str]:
    from amqproxy.taps.findings.finding import Finding
    from amqproxy.taps.message_record import MessageRecord
    from amqproxy.taps.record import Record

    types: dict[str, Any] = {"frame": Record, "message": MessageRecord, "finding": Finding}
    of_frame: Callable[[Any], str] = renderer(json)
    of_report: Callable[[Any], str] = report_renderer(json)

    def render(event: dict[str, Any]) -> str:
        kind = event["event"]
        record = msgspec.convert(event["record"], types[kind])
        return of_frame(record) if kind == "frame" else of_report(record)

    return render
