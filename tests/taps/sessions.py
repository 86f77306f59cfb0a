"""A session as taps know it."""

from dataclasses import dataclass


@dataclass(eq=False)
class Session:
    number: int = 7
    name: str = "c:1-p:2"
    is_tls: bool = False
    upstream_name: str = ""
    stalled_ns: int = 0
