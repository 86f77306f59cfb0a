"""`amqproxy sniff`: decodes the traffic of network interfaces like captures."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, cast

from cyclopts import Parameter

from amqproxy.cli.failure import MISUSED, Failure
from amqproxy.cli.options import Body, Filter, Findings, FrameJson, Header, Messages
from amqproxy.cli.printing import WorstFinding, checked_body
from amqproxy.cli.second_engine import second_engine
from amqproxy.cli.signals import on_signals

if TYPE_CHECKING:
    from amqproxy.capture.decoded import Decoded
    from amqproxy.capture.warnings import CaptureWarning
    from amqproxy.tshark.live_capture import LiveCapture
    from amqproxy.views.view import View


def sniff(
    *,
    interface: Annotated[list[str], Parameter(name=["--interface", "-i"], negative="")],
    port: Annotated[list[int] | None, Parameter(negative="")] = None,
    capture_filter: str | None = None,
    messages: Messages = False,
    findings: Findings = False,
    json: FrameJson = False,
    fields: str | None = None,
    header: Header = False,
    separator: str = "tab",
    follow: str | None = None,
    filter: Filter = None,
    body: Body = 0,
    keylog: Path | None = None,
) -> None:
    """Capture from network interfaces, and decode AMQP live, until Ctrl-C. The output is that of `decode`.

    Needs tshark (with dumpcap, and the right to capture), and pip install 'amqproxy[captures]'.

    Parameters
    ----------
    interface
        An interface to capture from, as `tshark -D` lists them: lo, eth0, any. Repeat it for more.
    port
        Capture only TCP on this port; repeatable [5672 and 5671].
    capture_filter
        A libpcap filter expression to use instead of ports: "host 10.0.0.1 and tcp", "vlan and tcp".
    fields
        Print only these fields, as in `decode`.
    separator
        With --fields: separate them by this character instead of a tab.
    follow
        Print only one connection, or with /CHANNEL one channel of it, as in `decode`.
    keylog
        A file with secrets of TLS sessions, in SSLKEYLOGFILE format; it may grow meanwhile.
    """
    from amqproxy.capture.selection.conversation import Conversation
    from amqproxy.capture.selection.selection import Selection
    from amqproxy.capture.warnings import CaptureError
    from amqproxy.cli.views import ViewOptions, view_of
    from amqproxy.tshark.engine import TsharkMissing
    from amqproxy.tshark.live_capture import PORTS, CannotCapture, LiveCapture, port_filter

    if port and capture_filter is not None:
        raise Failure("sniff: --port and --capture-filter exclude each other", MISUSED)
    if any(not 0 < each < 65536 for each in port or ()):
        raise Failure("sniff: --port: ports are between 1 and 65535", MISUSED)
    if findings and filter is not None and not messages:
        raise Failure("sniff: --filter selects frames or messages: with --findings it needs --messages", MISUSED)
    if fields is None and (header or separator != "tab"):
        raise Failure("sniff: --header and --separator are for columns: they need --fields", MISUSED)
    options = ViewOptions(
        messages=messages,
        findings=findings,
        json=json,
        filter=filter,
        body=checked_body(body),
        fields=fields,
        header=header,
        separator=separator,
    )
    view = view_of(options, Selection(None if follow is None else Conversation(follow), None), WorstFinding())
    selected = port_filter(port or PORTS) if capture_filter is None else capture_filter
    try:
        with LiveCapture(interface, selected, _note_started) as capture, on_signals(capture.stop, _interrupt):
            counts = _print(capture, view, keylog)
    except (TsharkMissing, CannotCapture) as refused:
        raise Failure(f"sniff: {refused}") from None
    except CaptureError as error:
        sys.stdout.flush()
        raise Failure(str(error)) from None
    packets = f"{capture.captured} packets captured, {capture.dropped} dropped"
    print(f"amqproxy: {packets}; {counts.connections} AMQP connections, {counts.frames} frames", file=sys.stderr)
    if capture.trouble:
        raise Failure(f"sniff: {capture.name}: {capture.trouble}")


def _note_started(capture: LiveCapture) -> None:
    what = capture.filter or "everything"
    print(f"amqproxy: capturing from {capture.name} ({what}); Ctrl-C ends it", file=sys.stderr, flush=True)


class _Counts:
    """Numbers of decoded connections and frames."""

    def __init__(self) -> None:
        self.connections = self.frames = 0
        self._open: set[int] = set()

    def of(self, decoded: Iterable[Decoded]) -> Iterator[Decoded]:
        from amqproxy.capture.decoded import DecodedFrames, StreamEnded

        for each in decoded:
            if isinstance(each, StreamEnded):
                self._open.discard(each.stream)
            elif each.stream not in self._open:
                self._open.add(each.stream)
                self.connections += 1
            if isinstance(each, DecodedFrames):
                self.frames += len(each.frames)
            yield each


def _print(capture: LiveCapture, view: View, keylog: Path | None) -> _Counts:
    """Print each line as soon as its packets were captured."""
    from amqproxy.capture.decode import read_decoded
    from amqproxy.capture.warnings import WarningKind

    counts = _Counts()

    def notify(notice: CaptureWarning) -> None:
        if notice.kind is not WarningKind.IGNORED:
            print(f"amqproxy: {notice}", file=sys.stderr)

    with second_engine("sniff", notify, keylog, is_live=True) as engine:
        source = cast(BinaryIO, capture)
        for line in view.lines(counts.of(read_decoded(source, notify, engine=engine))):
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
        for line in view.finish():
            sys.stdout.write(line + "\n")
    return counts


def _interrupt() -> None:
    raise KeyboardInterrupt
