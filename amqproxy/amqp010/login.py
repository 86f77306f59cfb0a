"""Who logs in, according to the client's connection.start-ok or secure-ok. Section 9.1."""

from __future__ import annotations

NAME_PROPERTIES = ("clientName", "qpid.client_process")
"""The client properties in which Qpid's clients say how they are called, the more telling one first."""


def user_of(mechanism: str | None, response: bytes | None, tls_subject: str = "") -> str:
    """The name that a client logs in with by PLAIN, or by SCRAM for itself and no other; "" if there is none.

    `response` is that of start-ok, or of secure-ok: PLAIN may answer only when it is asked again.
    With EXTERNAL, the user is the one that its certificate names, not the one in its response.
    """
    if mechanism == "PLAIN":
        parts = (response or b"").split(b"\0")
        return parts[1].decode("utf-8", "surrogateescape") if len(parts) == 3 else ""
    if (mechanism or "").startswith("SCRAM-"):
        return _user_of_scram(response or b"")
    return tls_subject if mechanism == "EXTERNAL" else ""


def _user_of_scram(first_message: bytes) -> str:
    """Section 5.1 of RFC 5802: `n,,n=user,r=nonce`, in which the name of another user to act for may stand second."""
    parts = first_message.split(b",")
    if len(parts) < 4 or parts[1] or not parts[2].startswith(b"n="):
        return ""
    return parts[2][2:].replace(b"=2C", b",").replace(b"=3D", b"=").decode("utf-8", "surrogateescape")
