"""`amqproxy extcap`: running proxies as capture interfaces of Wireshark, by its extcap protocol.

https://www.wireshark.org/docs/man-pages/extcap.html
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from binascii import a2b_base64
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from amqproxy import __version__
from amqproxy.cli.control_connection import connected
from amqproxy.cli.failure import FAILED, MISUSED, Failure
from amqproxy.cli.options import Flag
from amqproxy.cli.standard_streams import print_error

if TYPE_CHECKING:
    from amqproxy.control.running_proxies import RunningProxy

Hidden = Annotated[Flag, Parameter(show=False)]

PREFIX = "amqproxy:"
"""Prefix of interfaces; the path of the control socket follows, or nothing if an option names it."""

PAGE = "https://amqproxy.github.io/amqproxy/howto/wireshark/"

FOLDER = Path(".local/lib/wireshark/extcap")
"""Wireshark's personal extcap folder, in the home directory."""

NAME = "amqproxy"

_RAW_IP = 101


def extcap(
    *,
    install: Flag = False,
    folder: Path | None = None,
    extcap_interfaces: Hidden = False,
    extcap_version: Annotated[str | None, Parameter(show=False)] = None,
    extcap_interface: Annotated[str | None, Parameter(show=False)] = None,
    extcap_dlts: Hidden = False,
    extcap_config: Hidden = False,
    extcap_capture_filter: Annotated[str | None, Parameter(show=False)] = None,
    capture: Hidden = False,
    fifo: Annotated[Path | None, Parameter(show=False)] = None,
    socket: Annotated[Path | None, Parameter(show=False)] = None,
    legs: Annotated[Literal["both", "once"], Parameter(show=False)] = "both",
    since_start: Hidden = False,
) -> None:
    """Show running proxies as capture interfaces in Wireshark, tshark and dumpcap.

    With --install, write the script by which they start this command with options of their own.

    Parameters
    ----------
    install
        Write the script into Wireshark's extcap folder.
    folder
        The folder [that for this user, as `tshark -G folders` names it].
    """
    if install:
        _install(folder)
    elif extcap_interfaces:
        _print_interfaces()
    elif extcap_interface is None:
        raise Failure("extcap: Wireshark runs this command; --install registers it there", MISUSED)
    elif extcap_dlts:
        print(f"dlt {{number={_RAW_IP}}}{{name=RAW}}{{display=Raw IP}}")
    elif extcap_config:
        _print_options(extcap_interface)
    elif capture:
        if fifo is None:
            raise Failure("extcap: --capture needs a --fifo", MISUSED)
        if extcap_capture_filter:
            raise Failure("extcap: a proxy has no capture filter: use a display filter, such as amqp", FAILED)
        _capture(extcap_interface, socket, fifo, legs, since_start=since_start)


def _print_interfaces() -> None:
    from amqproxy.control.running_proxies import running_proxies

    print(f"extcap {{version={__version__}}}{{help={PAGE}}}{{display=amqproxy}}")
    named = os.environ.get("AMQPROXY_CONTROL")
    for proxy in running_proxies(Path(named) if named else None):
        print(f"interface {{value={PREFIX}{_plain(str(proxy.socket))}}}{{display={_plain(_title(proxy))}}}")
    print(f"interface {{value={PREFIX}}}{{display=amqproxy, by its control socket}}")


def _title(proxy: RunningProxy) -> str:
    return f"amqproxy on {', '.join(proxy.listen) or proxy.socket}"


def _plain(text: str) -> str:
    """Return a text without the braces that end a value."""
    return text.translate({ord("{"): "(", ord("}"): ")"})


def _print_options(interface: str) -> None:
    if interface == PREFIX:
        print("arg {number=0}{call=--socket}{display=Control socket}{type=string}{required=true}", end="")
        print("{tooltip=The path in [control] of the proxy's config}")
    print("arg {number=1}{call=--legs}{display=Legs}{type=selector}", end="")
    print("{tooltip=Both connections of a session, or frames that are the same on both only once}")
    print("value {arg=1}{value=both}{display=client and broker}{default=true}")
    print("value {arg=1}{value=once}{display=each frame once}{default=false}")
    print("arg {number=2}{call=--since-start}{display=Earlier traffic}{type=boolflag}", end="")
    print("{tooltip=Begin with the traffic that the proxy still has: needs a ring in its [control]}")


def _capture(interface: str, named: Path | None, fifo: Path, legs: str, *, since_start: bool) -> None:
    """Write the packets of a proxy into the fifo, until Wireshark closes it or the proxy ends."""
    path = named or Path(interface.removeprefix(PREFIX))
    if str(path) in ("", "."):
        raise Failure("extcap: name the proxy's control socket in the options of the interface", MISUSED)
    options = {"from": "start"} if since_start else {}
    with connected(path, None) as proxy:
        proxy.ask("subscribe", packets=True, legs=legs, **options)
        try:
            with fifo.open("wb", buffering=0) as packets:
                for event in proxy.events():
                    if event.get("event") == "packets":
                        packets.write(a2b_base64(event["data"]))
                    elif event.get("event") == "lost":
                        print_error(f"amqproxy: {event['count']} frames skipped: Wireshark is too slow")
        except BrokenPipeError:
            return


# --- the script


def _install(folder: Path | None) -> None:
    target = (folder or _usual_folder()) / NAME
    script = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m amqproxy extcap "$@"\n'
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(script)
        target.chmod(0o755)
    except OSError as error:
        raise Failure(f"extcap: {target} cannot be written: {error.strerror}") from None
    print(f"{target}: `tshark -D` and Wireshark list running proxies now")


def _usual_folder() -> Path:
    """Return the extcap folder that tshark reads for this user; raise `Failure` if it reads none."""
    tshark = shutil.which("tshark")
    if tshark is None:
        return Path.home() / FOLDER
    listed = subprocess.run([tshark, "-G", "folders"], capture_output=True, text=True, check=False).stdout
    folders = dict(re.findall(r"^([\w ]*[Ee]xtcap path):\s*(\S.*)$", listed, re.MULTILINE))
    personal = next((path for name, path in folders.items() if name.startswith("Personal")), None)
    if personal:
        return Path(personal)
    common = folders.get("Extcap path")
    if common and os.access(common, os.W_OK):
        return Path(common)
    raise Failure(
        f"extcap: this Wireshark has no folder for one user: run this as root, for {common or 'its extcap folder'}, or "
        "name a --folder and set WIRESHARK_EXTCAP_DIR to it"
    )
