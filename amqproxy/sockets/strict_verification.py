"""Reason of OpenSSL's strict verification (RFC 5280) for refusing a certificate: its owner, and the extension at fault.

OpenSSL names neither the certificate nor, for most faults, the extension.
"""

from __future__ import annotations

import re
import ssl
from typing import NamedTuple

from amqproxy.sockets.certificate import distinguished_name


class StrictFault(NamedTuple):
    """An extension: its object identifier in DER with the required value, and whether only authorities need it."""

    extension: str
    encoded: bytes
    is_for_authorities: bool = True


FAULTS = {
    "CA cert does not include key usage extension": StrictFault("keyUsage", bytes.fromhex("0603551d0f")),
    "Missing Subject Key Identifier": StrictFault("subjectKeyIdentifier", bytes.fromhex("0603551d0e")),
    "Basic Constraints of CA cert not marked critical": StrictFault(
        "a critical basicConstraints", bytes.fromhex("0603551d13 0101ff")
    ),
    "Missing Authority Key Identifier": StrictFault("authorityKeyIdentifier", bytes.fromhex("0603551d23"), False),
}
"""Faults that only `X509_V_FLAG_X509_STRICT` checks, by OpenSSL's messages (crypto/x509/x509_txt.c)."""


def strict_refusal(error: BaseException, connection: object, context: ssl.SSLContext) -> str:
    """Return the reason of a handshake that failed by strict verification; "" otherwise.

    `connection` is trio's or the standard library's connection object, which still has the peer's certificates.
    """
    if not isinstance(error, ssl.SSLCertVerificationError) or not context.verify_flags & ssl.VERIFY_X509_STRICT:
        return ""
    fault = FAULTS.get(error.verify_message)
    if fault is None:
        return ""
    names = [name for name, encoded in _candidates(connection, context, fault) if fault.encoded not in encoded]
    whose = f"the certificate of '{names[0]}'" if names else "the peer's certificate"
    return f"{whose} lacks {fault.extension}, which tls.strict requires ({error.verify_message})"


def _candidates(connection: object, context: ssl.SSLContext, fault: StrictFault) -> list[tuple[str, bytes]]:
    """Return subjects and DER of the certificates that may be at fault: the peer's chain, and its trusted issuers.

    If the chain is unknown, these are all trusted authorities: a server cannot read the client's certificates from
    OpenSSL before they are verified.
    """
    try:
        # Public from Python 3.13 on; exists since 3.10. It works during the handshake.
        chain = connection._sslobj.get_unverified_chain() or []  # type: ignore[attr-defined]
    except (AttributeError, ValueError):
        chain = []
    sent = [(each.get_info(), each.public_bytes(_DER)) for each in chain]
    issuers = [info.get("issuer") for info, _ in sent]
    known = zip(context.get_ca_certs(), context.get_ca_certs(binary_form=True), strict=True)
    authorities = [(info, data) for info, data in known if not issuers or info.get("subject") in issuers]
    return [
        (distinguished_name(info) or "", data)
        for info, data in sent + authorities
        if not fault.is_for_authorities or _IS_AUTHORITY.search(data)
    ]


_DER = 2  # `_ssl.ENCODING_DER`
_IS_AUTHORITY = re.compile(rb"\x06\x03\x55\x1d\x13(?:\x01\x01\xff)?\x04.\x30.\x01\x01\xff", re.DOTALL)
"""basicConstraints with cA true, in DER."""
