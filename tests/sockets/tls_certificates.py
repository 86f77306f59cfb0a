"""Certificates of all kinds that a peer may have, right and wrong, signed by one authority."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

REFUSED = {
    "expired": "certificate has expired",
    "not yet valid": "certificate is not yet valid",
    "wrong name": "Hostname mismatch, certificate is not valid for 'localhost'",
    "self-signed": "self-signed certificate",
    "missing intermediate": "unable to get local issuer certificate",
    "weak key": "EE certificate key too weak",
}
"""Reasons that must be in the refusal of a kind of certificate."""


class Certificates:
    """Files of an authority, an intermediate one, a revocation list, and of each kind of certificate with its key."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key: Key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("authority")
        self._authority = self._signed(self._name, self._key, self._name, self._key, is_authority=True)
        middle_key = ec.generate_private_key(ec.SECP256R1())
        middle = self._signed(_name("intermediate"), middle_key, self._name, self._key, is_authority=True)
        self.authority = self._file("authority", self._authority)
        own = self._name, self._key
        self.files = {
            "good": self._issue("good", own),
            "expired": self._issue("expired", own, since=-10, until=-1),
            "not yet valid": self._issue("future", own, since=1, until=10),
            "wrong name": self._issue("other", own, host="other.example"),
            "self-signed": self._issue("self", None),
            "revoked": self._issue("revoked", own),
            "intermediate": self._issue("chained", (_name("intermediate"), middle_key), further=middle),
            "missing intermediate": self._issue("broken", (_name("intermediate"), middle_key)),
            "weak key": self._issue("weak", own, key=rsa.generate_private_key(65537, 1024)),
        }
        self.revocations = self._revoking("revoked")

    def _issue(
        self,
        name: str,
        issuer: tuple[x509.Name, Key] | None,
        *,
        host: str = "localhost",
        since: int = -1,
        until: int = 10,
        key: Key | None = None,
        further: x509.Certificate | None = None,
    ) -> str:
        """Return the file of a certificate, its chain and its key; without an issuer, it signs itself."""
        key = key or ec.generate_private_key(ec.SECP256R1())
        issuer_name, issuer_key = issuer or (_name(name), key)
        issued = self._signed(_name(name), key, issuer_name, issuer_key, host=host, since=since, until=until)
        if name == "revoked":
            self._revoked = issued.serial_number
        chain = [each for each in (issued, further) if each is not None]
        return self._file(name, *chain, key=key)

    def _signed(
        self,
        name: x509.Name,
        key: Key,
        issuer: x509.Name,
        issuer_key: Key,
        *,
        host: str = "",
        since: int = -1,
        until: int = 10,
        is_authority: bool = False,
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        made = x509.CertificateBuilder(issuer, name, key.public_key(), x509.random_serial_number())
        made = made.not_valid_before(now + since * DAY).not_valid_after(now + until * DAY)
        made = made.add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        if host:
            made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        return made.sign(issuer_key, hashes.SHA256())

    def _revoking(self, name: str) -> str:
        now = datetime.now(UTC)
        made = x509.CertificateRevocationListBuilder(self._name, now - DAY, now + DAY)
        revoked = x509.RevokedCertificateBuilder(self._revoked, now - DAY).build()
        file = self._directory / "revocations.pem"
        signed = made.add_revoked_certificate(revoked).sign(self._key, hashes.SHA256())
        file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        return str(file)

    def _file(self, name: str, *certificates: x509.Certificate, key: Key | None = None) -> str:
        pem = b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)
        if key is not None:
            pem += key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        file = self._directory / f"{name}.pem"
        file.write_bytes(pem)
        return str(file)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
