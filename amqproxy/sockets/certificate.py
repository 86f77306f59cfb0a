"""User name in a client's certificate, as RabbitMQ reads it, for SASL EXTERNAL."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

Naming = Callable[[Mapping[str, Any]], str | None]
"""Returns the user in a certificate, from the result of `ssl.SSLSocket.getpeercert`; `None` if it names none."""

KINDS = {
    "surname": "SN",
    "givenName": "GIVENNAME",
    "initials": "INITIALS",
    "generationQualifier": "GENERATIONQUALIFIER",
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "title": "TITLE",
    "countryName": "C",
    "serialNumber": "SERIALNUMBER",
    "pseudonym": "PSEUDONYM",
    "domainComponent": "DC",
    "emailAddress": "EMAILADDRESS",
    "userId": "UID",
    "businessCategory": "2.5.4.15",
    "description": "2.5.4.13",
    "dnQualifier": "2.5.4.46",
    "name": "2.5.4.41",
    "organizationIdentifier": "2.5.4.97",
    "postalCode": "2.5.4.17",
    "streetAddress": "2.5.4.9",
    "x500UniqueIdentifier": "2.5.4.45",
}
"""RabbitMQ's names for the parts of a distinguished name; it numbers those without a name."""

ESCAPED = frozenset('"+,;<>\\')


def distinguished_name(certificate: Mapping[str, Any]) -> str | None:
    """Return the whole subject, as RFC 4514 writes it: `CN=orders,O=acme`. RabbitMQ's default."""
    parts = ["+".join(map(_attribute, names)) for names in reversed(certificate.get("subject", ()))]
    return ",".join(parts) or None


def common_name(certificate: Mapping[str, Any]) -> str | None:
    """Return the subject's common name; several are joined by commas."""
    names = [value for each in certificate.get("subject", ()) for kind, value in each if kind == "commonName"]
    return ",".join(names) or None


def common_name_in(subject: str) -> str:
    """Return the common name in a subject that has nothing else, as `distinguished_name` writes it; "" in others."""
    found = _ONLY_COMMON_NAME.fullmatch(subject)
    if found is None:
        return ""
    pieces = _ESCAPE.sub(lambda each: chr(int(each[1], 16)) if len(each[1]) == 2 else each[1], found[1])
    return pieces.encode("latin-1").decode("utf-8", "replace")


_ONLY_COMMON_NAME = re.compile(r"CN=((?:[^\\,+]|\\.)*)", re.DOTALL)
_ESCAPE = re.compile(r"\\([0-9A-F]{2}|.)", re.DOTALL)


def _first(kind: str, certificate: Mapping[str, Any]) -> str | None:
    """Return the first alternative name of a kind, as Python calls it."""
    return next((value for found, value in certificate.get("subjectAltName", ()) if found == kind), None)


NAMINGS: dict[str, Naming] = {
    "distinguished_name": distinguished_name,
    "common_name": common_name,
    "dns": partial(_first, "DNS"),
    "email": partial(_first, "email"),
    "ip": partial(_first, "IP Address"),
    "uri": partial(_first, "URI"),
}
"""By RabbitMQ's values for ssl_cert_login_from, or for ssl_cert_login_san_type."""


def _attribute(name: tuple[str, str]) -> str:
    kind, value = name
    return f"{KINDS.get(kind, kind)}={_escaped(value)}"


def _escaped(value: str) -> str:
    """Escape a value by RFC 4514, section 2.4, in RabbitMQ's interpretation."""
    escaped = []
    for place, character in enumerate(value):
        is_edge = (place == 0 and character in " #") or (place == len(value) - 1 and character == " ")
        if is_edge or character in ESCAPED:
            escaped.append("\\" + character)
        elif 32 <= ord(character) < 126:
            escaped.append(character)
        else:
            escaped += [f"\\{byte:02X}" for byte in character.encode()]
    return "".join(escaped)
