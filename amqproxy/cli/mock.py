"""`amqproxy mock`: plays the server's side of a recording to a client."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from amqproxy.cli.capture_files import CaptureFiles
from amqproxy.cli.failure import MISUSED, Failure
from amqproxy.cli.options import Capture, Certificate, Flag, Key, Keylog
from amqproxy.cli.target_url import credentials_of

if TYPE_CHECKING:
    from amqproxy.capture.decoded import Decoded
    from amqproxy.replay.mocking.dialects import AnyScript
    from amqproxy.replay.mocking.mock_report import MockedConnection

MAX_BYTES = 512 << 20
"""Maximum size of a recording's frames in bytes, since they are held in memory."""


def mock(
    *files: Capture,
    listen: str = "127.0.0.1:5672",
    speed: float = 1.0,
    loop: Flag = False,
    once: Flag = False,
    strict: Flag = False,
    user: str | None = None,
    leg: Literal["client", "upstream"] = "client",
    keylog: Keylog = None,
    tls_cert: Certificate = None,
    tls_key: Key = None,
    json: Flag = False,
) -> None:
    """Play the server's side of a recording to clients, until SIGTERM or Ctrl-C.

    A client gets the answers, messages, confirms, returns and errors that the recorded client got for its commands.
    When it disconnects, its differences from the recording are printed.

    Parameters
    ----------
    files
        The captures with the recording, pcap or pcapng; - is standard input.
    listen
        HOST:PORT where clients connect. Port 0 picks a free port.
    speed
        Speed of the answers relative to the recording; 0 is without any delay.
    loop
        Play each recorded connection repeatedly, so that a client can reconnect.
    once
        Exit when the first client disconnects: with 0 if it acted as recorded, otherwise with 1.
    strict
        Close the connection, not only the channel or session, if the recording has no answer.
    user
        USER:PASSWORD that clients must log in with; the password may be in the variable AMQPROXY_PASSWORD. By
        default, any user and password is accepted.
    leg
        The leg of a proxy recording whose server is played.
    json
        Print one JSON object per line for each client, instead of text.
    """
    import trio

    from amqproxy.configuration.config import ListenerConfig, LogConfig
    from amqproxy.process import log
    from amqproxy.replay.mocking.mock_connection import MockSettings

    if not 0 <= speed < float("inf"):
        raise Failure(f"mock: --speed {speed}: give a number of at least 0", MISUSED)
    try:
        ListenerConfig(address=listen)
    except ValueError as error:
        raise Failure(f"mock: --listen {listen}: {error}", MISUSED) from None
    credentials = None
    if user is not None:
        credentials = credentials_of(user, "mock: --user")
    if (tls_cert is None) != (tls_key is None):
        raise Failure("mock: TLS needs both --tls-cert and --tls-key", MISUSED)
    settings = MockSettings(speed=speed, user=credentials, is_strict=strict)
    scripts = _scripts(CaptureFiles("mock", files, leg=leg, keylog=keylog))
    printer = _Printer(json=json)
    with log.started(LogConfig()):
        trio.run(_serve, scripts, settings, printer, listen, (tls_cert, tls_key), loop, once)
    if once and printer.has_differences:
        sys.stdout.flush()
        raise Failure("mock: the client did not act as recorded")


class _Printer:
    def __init__(self, *, json: bool) -> None:
        from amqproxy.process.log import is_coloured

        self.has_differences = False
        self._json = json
        self._is_coloured = is_coloured(sys.stdout)

    def print(self, mocked: MockedConnection) -> None:
        self.has_differences = self.has_differences or not mocked.is_same
        lines = [mocked.to_json().decode()] if self._json else mocked.lines(is_coloured=self._is_coloured)
        for line in lines:
            sys.stdout.write(line + "\n")
        sys.stdout.flush()


def _scripts(files: CaptureFiles) -> list[AnyScript]:
    from amqproxy.replay.dialogue import dialogues
    from amqproxy.replay.mocking.dialects import scripts_of

    with files as captures:
        try:
            scripts = scripts_of(dialogues(_bounded(captures.decoded())))
        except OverflowError as error:
            raise Failure(f"mock: {error}: choose connections with `amqproxy export --filter`") from None
    if not scripts:
        raise Failure("mock: the recording contains no connection of a protocol that can be played")
    return scripts


def _bounded(decoded: Iterator[Decoded]) -> Iterator[Decoded]:
    """Yield the decoded frames, up to the memory limit."""
    from amqproxy.capture.decoded import DecodedFrames

    size = 0
    for each in decoded:
        if isinstance(each, DecodedFrames):
            size += sum(frame.size for frame in each.frames)
            if size > MAX_BYTES:
                raise OverflowError(f"the recording has more than {MAX_BYTES >> 20} MiB of frames")
        yield each


async def _serve(
    scripts: list[AnyScript],
    settings: object,
    printer: _Printer,
    address: str,
    tls: tuple[Path | None, Path | None],
    is_loop: bool,
    is_once: bool,
) -> None:
    import signal

    import trio

    from amqproxy.configuration.tls_config import ServerTLS
    from amqproxy.configuration.values import join_address
    from amqproxy.process.log import logger
    from amqproxy.proxy.listener import listen
    from amqproxy.replay.mocking.mock_connection import MockSettings
    from amqproxy.replay.mocking.mock_server import MockServer
    from amqproxy.sockets.tls import server_context

    assert isinstance(settings, MockSettings)
    certificate, key = tls
    context = None
    if certificate is not None and key is not None:
        context = server_context(ServerTLS(certificate=str(certificate), key=str(key)))
    try:
        listeners = await listen(address)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise Failure(f"mock: cannot listen on {address}: {reason or error}") from None
    server = MockServer(scripts, settings, printer.print, is_loop=is_loop, is_once=is_once)
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        for listener in listeners:
            place = join_address(*listener.socket.getsockname()[:2])
            logger().info("listening", address=place, tls=context is not None, connections=len(scripts))
        async with trio.open_nursery() as nursery:

            async def end_at_signal() -> None:
                async for _ in signals:
                    nursery.cancel_scope.cancel()

            nursery.start_soon(end_at_signal)
            await server.serve([(listener, context) for listener in listeners])
            nursery.cancel_scope.cancel()
        for listener in listeners:
            await listener.aclose()
