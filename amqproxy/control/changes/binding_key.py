"""The name of a binding among those of its source and destination."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from urllib.parse import quote
from zlib import crc32


def properties_key(routing_key: str, arguments: bytes) -> str:
    """Return the name of a binding among those of its source and destination, from its encoded arguments.

    It has the form of RabbitMQ's: the routing key, a tilde, and a hash of the arguments if there are any. RabbitMQ's
    hash is Erlang's `phash2`, so that clients cannot compute it either, and take the key from the list.
    """
    key = quote(routing_key.encode("utf-8", "surrogateescape"), safe="")
    if not arguments:
        return key or "~"
    return f"{key}~{urlsafe_b64encode(crc32(arguments).to_bytes(4)).decode().rstrip('=')}"
