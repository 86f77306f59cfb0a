"""`amqproxy version`: prints the version."""

from __future__ import annotations

from amqproxy import __version__
from amqproxy.compiled import _pure


def version() -> None:
    """Print the version, and whether the decoder is compiled."""
    print(f"amqproxy {__version__} ({'compiled' if _pure.is_compiled() else 'plain'})")
