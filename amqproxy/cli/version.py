"""`amqproxy version`: prints the version."""

from __future__ import annotations

from amqproxy import __version__
from amqproxy.cli.addon_commands import addon_lines
from amqproxy.compiled import _pure


def version() -> None:
    """Print the version, whether the decoder is compiled, and the addons; if it should be compiled and is not, how."""
    print(f"amqproxy {__version__} ({'compiled' if _pure.is_compiled() else 'plain'})")
    if _pure.is_slow():
        print(f"The plain form is {_pure.SLOW}.")
    for line in addon_lines():
        print(line)
