"""Paths and parameters of tshark and dumpcap, as determined by pyshark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_NO_INTERFACES = frozenset({"ciscodump", "dpauxmon", "randpkt", "sdjournal", "sshdump", "udpdump", "wifidump"})
"""Entries of Wireshark's interface list that are packet-generating programs instead of network interfaces."""
INSTALL_PYSHARK = "pip install 'amqproxy[captures]'"
INSTALL_TSHARK = "apt-get install tshark (Debian), dnf install wireshark-cli (Fedora), or see wireshark.org"


class TsharkMissing(Exception):
    """A program or package is not installed; the text says how to install it."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what} is not installed: {remedy}")


def program(name: str) -> str:
    """Return the path of `tshark`, or of `dumpcap`, which is part of it."""
    tshark = _pyshark("tshark.tshark")
    try:
        return str(tshark.get_process_path(process_name=name))
    except tshark.TSharkNotFoundException:
        raise TsharkMissing(name, INSTALL_TSHARK) from None


def pipe_command(
    output: Sequence[str],
    *,
    preferences: Mapping[str, str] | None = None,
    decode_as: Mapping[str, str] | None = None,
    disabled: str | None = None,
) -> list[str]:
    """Return a tshark command that reads packets from standard input and writes `output` for each immediately.

    `decode_as` maps a port, as in "tcp.port==5671", to the protocol that is spoken there; one protocol may be
    `disabled`.
    """
    path = program("tshark")
    capture = _without_event_loop("capture.pipe_capture", "PipeCapture")(
        None,
        override_prefs=dict(preferences or {}),
        decode_as=dict(decode_as or {}),
        disable_protocol=disabled,
        custom_parameters=[*output],
    )
    return [path, "-l", "-n", *capture.get_parameters()]


def file_command(
    file: str,
    output: Sequence[str],
    *,
    preferences: Mapping[str, str] | None = None,
    decode_as: Mapping[str, str] | None = None,
) -> list[str]:
    """Return a tshark command that reads a file in two passes and writes `output` for each packet."""
    path = program("tshark")
    capture = _without_event_loop("capture.file_capture", "FileCapture")(
        file,
        keep_packets=False,
        override_prefs=dict(preferences or {}),
        decode_as=dict(decode_as or {}),
        custom_parameters=[*output],
    )
    return [path, "-2", "-n", *capture.get_parameters()]


def version() -> str:
    """Return the version of tshark."""
    program("tshark")
    return str(_pyshark("tshark.tshark").get_tshark_version())


def live_command(interfaces: Sequence[str], capture_filter: str) -> list[str]:
    """Return a dumpcap command that writes the traffic of interfaces to its standard output."""
    path = program("dumpcap")
    program("tshark")
    capture = _without_event_loop("capture.live_capture", "LiveCapture")(list(interfaces), bpf_filter=capture_filter)
    return [path, *capture._get_dumpcap_parameters()]


def interface_names() -> list[str]:
    """Return the network interfaces available for capture."""
    program("tshark")
    found = [str(name) for name in _pyshark("tshark.tshark").get_tshark_interfaces()]
    return [name for name in found if name not in _NO_INTERFACES]


def _pyshark(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(f"pyshark.{module}")
    except ImportError:
        raise TsharkMissing("pyshark", INSTALL_PYSHARK) from None


def _without_event_loop(module: str, name: str) -> Any:
    """Return a pyshark class without its event loop, which is unnecessary because the class runs nothing itself."""
    found = _pyshark(module)
    return type(name, (getattr(found, name),), {"_setup_eventloop": lambda self: None})
