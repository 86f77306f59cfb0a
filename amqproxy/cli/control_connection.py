"""Connection of a command to the control socket of a running proxy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from amqproxy.cli.failure import MISUSED, Failure

if TYPE_CHECKING:
    from amqproxy.control.control_client import ControlClient


@contextmanager
def connected(path: Path | None, config: Path | None) -> Iterator[ControlClient]:
    """Connect to the control socket, and report an error of the proxy as `Failure`."""
    from amqproxy.control import ControlClient, RequestError

    try:
        with ControlClient(socket_path(path, config)) as asked:
            yield asked
    except RequestError as wrong:
        raise Failure(str(wrong)) from None


def socket_path(path: Path | None, config: Path | None) -> Path:
    """Return the control socket's path: given, or from the config or AMQPROXY_CONTROL. `Failure` if both are given."""
    from amqproxy.configuration.config_file import chosen_file, load

    if path is not None and config is not None:
        raise Failure("give either --socket or --config, not both", MISUSED)
    if path is not None:
        return path
    config = chosen_file(config)
    named = load(config).control
    if named is None and config is None:
        raise Failure("name the proxy's --socket, or the --config that names it, or set AMQPROXY_CONTROL", MISUSED)
    if named is None:
        raise Failure(f"{config} has no [control]: its proxy has no control socket", MISUSED)
    return Path(named.path)
