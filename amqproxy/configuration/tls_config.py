"""The configuration's types for TLS, of listeners and towards brokers."""

from __future__ import annotations

from typing import Literal, TypeVar

from amqproxy.configuration.values import Strict

CertificateLogin = Literal["common_name", "distinguished_name", "dns", "email", "ip", "uri"]
"""The part of a client's certificate that names the user: of its subject, or its first alternative name of a kind.

These are RabbitMQ's values for ssl_cert_login_from, and for ssl_cert_login_san_type with subject_alternative_name.
"""


class CertificateFiles(Strict, frozen=True):
    """A certificate and its key. Files are PEM."""

    certificate: str
    """The server's certificate, followed by the intermediate certificates."""
    key: str
    """The certificate's key, without a password."""


class ServerTLS(CertificateFiles, frozen=True):
    """TLS of a listener: its certificate, and the certificates required of clients. Files are PEM."""

    certificates: tuple[CertificateFiles, ...] = ()
    """Further certificates: a client that requests a server name gets the first certificate for that name; all others
    get `certificate`.
    """
    client_ca: str | None = None
    """With it, clients are asked for a certificate that this authority signed."""
    client_crl: str | None = None
    """A certificate revocation list of the `client_ca`, and one of each intermediate authority of clients: those with a
    certificate on it are refused.
    """
    client_certificate: Literal["required", "optional"] = "required"
    """Whether clients without a certificate are refused if there is a `client_ca`; RabbitMQ's fail_if_no_peer_cert."""
    strict: bool = False
    """Whether certificates must have all extensions that RFC 5280 requires (`X509_V_FLAG_X509_STRICT`)."""

    def __post_init__(self) -> None:
        if self.client_certificate == "optional" and not self.client_ca:
            raise ValueError("an optional client_certificate needs the client_ca that has signed it")
        if self.client_crl and not self.client_ca:
            raise ValueError("a client_crl needs the client_ca that has signed it")

    @property
    def files(self) -> tuple[str, ...]:
        """All files, in the order in which they are read."""
        own = (self.certificate, self.key, *(each for each in (self.client_ca, self.client_crl) if each))
        return own + tuple(file for each in self.certificates for file in (each.certificate, each.key))


class ClientTLS(Strict, frozen=True):
    """TLS towards the broker: its verification, and the client certificate. Files are PEM."""

    ca: str | None = None
    """The authority that must have signed the broker's certificate; by default, the system's authorities."""
    server_name: str | None = None
    """The name that the certificate must have; by default, the upstream's host."""
    certificate: str | None = None
    """The client certificate, sent if the broker asks for one."""
    key: str | None = None
    """The certificate's key; needed unless it is in the same file."""
    verify: bool = True
    """Whether the broker's certificate is verified."""
    strict: bool = False
    """Whether certificates must have all extensions that RFC 5280 requires (`X509_V_FLAG_X509_STRICT`)."""

    def __post_init__(self) -> None:
        if self.key and not self.certificate:
            raise ValueError("a key needs the certificate that it belongs to")

    @property
    def files(self) -> tuple[str, ...]:
        """All files, in the order in which they are read."""
        return tuple(each for each in (self.ca, self.certificate, self.key) if each)


TLS = TypeVar("TLS", ServerTLS, ClientTLS)
