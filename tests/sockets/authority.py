"""A company's certificates, with extensions of RFC 5280 left out."""

from __future__ import annotations

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

Key = ec.EllipticCurvePrivateKey


class Authority:
    """A company's authority, its intermediate, and what they sign; `lacks` are extensions left out everywhere."""

    def __init__(self, directory: Path, *lacks: str) -> None:
        self._directory, self._lacks = directory, lacks
        root_key, middle_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        root = self._certificate("Corp CA", root_key, "Corp CA", root_key, is_authority=True)
        middle = self._certificate("Corp Issuing CA", middle_key, "Corp CA", root_key, is_authority=True)
        self.root, self.middle = self._write("root.pem", root), self._write("middle.pem", middle)
        leaf_key = ec.generate_private_key(ec.SECP256R1())
        leaf = self._certificate("localhost", leaf_key, "Corp Issuing CA", middle_key, is_authority=False)
        self.leaf = self._write("leaf.pem", leaf, middle)
        self.key = str(directory / "leaf.key")
        Path(self.key).write_bytes(leaf_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))

    def _certificate(self, name: str, key: Key, issuer: str, signer: Key, *, is_authority: bool) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(_name(name))
            .issuer_name(_name(issuer))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
        )
        if "keyUsage" not in self._lacks:
            usage = x509.KeyUsage(True, False, False, False, False, is_authority, is_authority, False, False)
            builder = builder.add_extension(usage, critical=True)
        if "authorityKeyIdentifier" not in self._lacks:
            issuer_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
            builder = builder.add_extension(issuer_id, critical=False)
        if is_authority:
            is_critical = "critical" not in self._lacks
            builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=is_critical)
        if is_authority and "subjectKeyIdentifier" not in self._lacks:
            builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        if not is_authority:
            builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        return builder.sign(signer, hashes.SHA256())

    def _write(self, name: str, *certificates: x509.Certificate) -> str:
        path = self._directory / name
        path.write_bytes(b"".join(each.public_bytes(Encoding.PEM) for each in certificates))
        return str(path)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
