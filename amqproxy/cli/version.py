"""`amqproxy version`: prints the version."""

from __future__ import annotations

from amqproxy import __version__
from amqproxy.compiled import _pure


def version() -> None:
    """Print the version, and whether the decoder is compiled; if it should be and is not, how it can be."""
    print(f"amqproxy {__version__} ({'compiled' if _pure.is_compiled() else 'plain'})")
    if _pure.is_slow():
        print(f"The plain form is {_pure.SLOW}.")
