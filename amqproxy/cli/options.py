"""Options that several commands share, with their help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

Flag = Annotated[bool, Parameter(negative="")]
"""An option without a value."""

Capture = Annotated[Path, Parameter(allow_leading_hyphen=True)]
"""A capture file; - is standard input."""

Played = Annotated[
    Capture,
    Parameter(help="The captures, read as one: pcap or pcapng files, directories of them, or - for standard input."),
]

# A running proxy.
Socket = Annotated[Path | None, Parameter(help="The proxy's control socket, or in AMQPROXY_CONTROL.")]
SocketConfig = Annotated[Path | None, Parameter(help="The config file that names the socket.")]
Json = Annotated[Flag, Parameter(help="Print one JSON object per line for each, instead of text.")]

# Captures.
PlayedLeg = Annotated[
    Literal["client", "upstream"],
    Parameter(
        help="The leg of a proxy recording to replay: the commands of its clients, or those that the proxy sent."
    ),
]
Keylog = Annotated[
    Path | None,
    Parameter(help="Secrets of TLS sessions, in SSLKEYLOGFILE format; tshark decrypts the captures with them."),
]
Timeout = Annotated[float, Parameter(help="Seconds to wait for a recorded answer.")]

# Frames, messages and findings that are printed.
FrameJson = Annotated[
    Flag, Parameter(help="Print one JSON object per line for each frame, message or finding, instead of text.")
]
Messages = Annotated[Flag, Parameter(help="Print one line per message and request, instead of per frame.")]
Findings = Annotated[
    Flag,
    Parameter(help="Print findings instead of frames, or with --messages between messages."),
]
Header = Annotated[Flag, Parameter(help="With --fields: print a line with their names first.")]
Filter = Annotated[
    str | None,
    Parameter(help="Print only the commands for which this CEL expression holds, such as exchange == 'orders'."),
]
Body = Annotated[
    int,
    Parameter(
        help="Also print the first N bytes of each body frame, or with --messages of each body; 1024 for --body alone."
    ),
]

# Programs that serve clients.
Certificate = Annotated[Path | None, Parameter(help="A certificate in PEM; clients must then use TLS.")]
Key = Annotated[Path | None, Parameter(help="The key of the certificate, in PEM, without a password.")]
Metrics = Annotated[str | None, Parameter(help="HOST:PORT for Prometheus, at /metrics. Off unless given.")]
Record = Annotated[
    Path | None,
    Parameter(help="Record the traffic into pcapng files in this directory. [record] in the config has more."),
]
Dashboard = Annotated[
    bool | str,
    Parameter(
        negative="",
        help="Show the traffic in a browser, at HOST:PORT [127.0.0.1:8672]. [dashboard] in the config has more.",
    ),
]
Management = Annotated[
    bool | str,
    Parameter(
        negative="",
        help="Serve RabbitMQ's management HTTP API at HOST:PORT [127.0.0.1:15672]. Needs "
        'pip install "amqproxy[dashboard]".',
    ),
]
LogFormat = Annotated[Literal["text", "json"] | None, Parameter(help="Format of the log on standard error [text].")]
LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"] | None, Parameter(help="Lowest level of events to log [info].")
]
ConfigFile = Annotated[
    Path | None,
    Parameter(
        help="A .toml, .yaml or .yml file, or in AMQPROXY_CONFIG; see `amqproxy config show`. "
        "Each key has a variable, too: AMQPROXY_LISTEN …"
    ),
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Printed:
    """Output of a program on standard output."""

    print: Annotated[Flag, Parameter(help="Print each frame on standard output, as it passes.")] = False
    messages: Annotated[Flag, Parameter(help="Print each message and request with its outcome and duration.")] = False
    findings: Annotated[Flag, Parameter(help="Print findings: likely mistakes and problems.")] = False
    json: Annotated[
        Flag,
        Parameter(help="Print one JSON object a line, for each frame, message or finding, as `decode --json` does."),
    ] = False
    filter: Filter = None
    body: Body = 0
    exit_on_closed_output: Annotated[
        Flag,
        Parameter(
            help="When printing: shut down and exit with 141 if the reader of standard output goes away. "
            "By default, only printing ends."
        ),
    ] = False
