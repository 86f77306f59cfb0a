"""User name in the client's connection.start-ok or secure-ok (section 9.1)."""

from __future__ import annotations


def user_of(mechanism: str | None, response: bytes | None, tls_subject: str = "") -> str:
    """Return the user of PLAIN, or of SCRAM without another authorization identity; "" if there is none.

    `response` is that of start-ok, or of secure-ok: PLAIN may answer only in the latter. With EXTERNAL, the user is the
    one in the certificate, not the one in the response.
    """
    if mechanism == "PLAIN":
        parts = (response or b"").split(b"\0")
        return parts[1].decode("utf-8", "surrogateescape") if len(parts) == 3 else ""
    if (mechanism or "").startswith("SCRAM-"):
        return _user_of_scram(response or b"")
    return tls_subject if mechanism == "EXTERNAL" else ""


def _user_of_scram(first_message: bytes) -> str:
    """Return the user of `n,,n=user,r=nonce` (RFC 5802, section 5.1), in which an authorization identity may be
    second.
    """
    parts = first_message.split(b",")
    if len(parts) < 4 or parts[1] or not parts[2].startswith(b"n="):
        return ""
    return parts[2][2:].replace(b"=2C", b",").replace(b"=3D", b"=").decode("utf-8", "surrogateescape")
