"""`amqproxy record`: starts and stops the recording of a running proxy."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import cyclopts
import msgspec

from amqproxy.cli.control_connection import connected
from amqproxy.cli.options import Flag, Socket, SocketConfig

app = cyclopts.App(name="record", help="Record what a running proxy relays, as pcapng files.")


@app.command
def start(
    directory: Path | None = None,
    /,
    *,
    filter: str | None = None,
    body: int | None = None,
    legs: Literal["both", "client", "upstream"] | None = None,
    file_size: str | None = None,
    file_age: str | None = None,
    files: int | None = None,
    total_size: str | None = None,
    compress: bool | None = None,
    when_full: Literal["drop", "wait"] | None = None,
    socket: Socket = None,
    config: SocketConfig = None,
) -> None:
    """Start recording the traffic, and return. Defaults are taken from [record] in the proxy's config.

    Open connections are recorded from this moment on.

    Parameters
    ----------
    directory
        The directory for the files, on the proxy's machine. Relative paths start at the current directory here.
    filter
        Record only the commands for which this CEL expression holds.
    body
        Record only the first N bytes of each body frame.
    legs
        Record both connections of a session, or only the client's or the upstream's [both].
    file_size
        Size at which the next file begins [256MiB].
    file_age
        Age at which the next file begins [1h].
    files
        Maximum number of files; the oldest is deleted.
    total_size
        Maximum size of all files; the oldest is deleted [10GiB].
    compress
        Compress files with zstd when they are complete [yes].
    when_full
        If the disk is too slow: drop and count frames, or let clients and brokers wait [drop].
    """
    given: dict[str, Any] = {
        "filter": filter,
        "body": body,
        "legs": legs,
        "file_size": file_size,
        "file_age": file_age,
        "files": files,
        "total_size": total_size,
        "compress": compress,
        "when_full": when_full,
    }
    if directory is not None:
        given["directory"] = str(directory.absolute())
    with connected(socket, config) as proxy:
        answer = proxy.ask("record-start", settings={name: value for name, value in given.items() if value is not None})
    print(f"recording into {answer['recording']['directory']}")


@app.command
def stop(*, json: Flag = False, socket: Socket = None, config: SocketConfig = None) -> None:
    """Stop recording, after all frames are written.

    Parameters
    ----------
    json
        Print the status of the recording as JSON.
    """
    with connected(socket, config) as proxy:
        _print_status(proxy.ask("record-stop")["recording"], json=json)


@app.command
def status(*, json: Flag = False, socket: Socket = None, config: SocketConfig = None) -> None:
    """Print the status of the recording, or of the last one.

    Parameters
    ----------
    json
        Print JSON.
    """
    with connected(socket, config) as proxy:
        _print_status(proxy.ask("record-status")["recording"], json=json)


def _print_status(status: dict[str, Any], *, json: bool) -> None:
    if json:
        print(msgspec.json.encode(status).decode())
    else:
        print("\n".join(_lines(status)))


def _lines(status: dict[str, Any]) -> list[str]:
    if not status["directory"]:
        return ["not recording"]
    state = "recording" if status["is_recording"] else "not recording; the last one was"
    lines = [f"{state} into {status['directory']}"]
    if status["file"]:
        lines.append(f"file: {status['file']}")
    lines.append(f"{status['packets']:,} packets in {status['files']} files, {status['size'] / 1e6:,.1f} MB")
    lines.append(f"{status['connections']} connections, {status['waiting'] / 1e6:,.1f} MB waiting for the disk")
    for name, why in (("dropped", "as the disk was too slow"), ("lost", "as writing failed")):
        if status[name]:
            lines.append(f"{status[name]:,} frames not recorded, {why}")
    if status["error"]:
        lines.append(f"error: {status['error']}")
    return lines
