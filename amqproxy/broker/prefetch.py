"""How many messages a client may have that it has not settled."""

UNLIMITED = 1 << 62
