"""Who logs in, according to the client's connection.start-ok. Section 9.1."""

from __future__ import annotations

from amqproxy.amqp010.controls import ConnectionStartOk

NAME_PROPERTIES = ("clientName", "qpid.client_process")
"""The client properties in which Qpid's clients say how they are called, the more telling one first."""


def user_of(start: ConnectionStartOk, tls_subject: str = "") -> str:
    """The name that a client logs in with by PLAIN; "" if there is none.

    With EXTERNAL, the user is the one that its certificate names, not the one in its response.
    """
    if start.mechanism == "PLAIN":
        parts = (start.response or b"").split(b"\0")
        return parts[1].decode("utf-8", "surrogateescape") if len(parts) == 3 else ""
    return tls_subject if start.mechanism == "EXTERNAL" else ""
