"""Renewal of the API's certificate: only a pair that matches is used."""

from __future__ import annotations

import ssl
from pathlib import Path

import trustme

from amqproxy.management.certificate_renewal import CertificateRenewal


def write(directory: Path, name: str, *, with_key: bool = True) -> tuple[Path, Path]:
    issued = trustme.CA().issue_cert(name)
    certificate, key = directory / "certificate.pem", directory / "key.pem"
    issued.cert_chain_pems[0].write_to_path(certificate)
    if with_key:
        issued.private_key_pem.write_to_path(key)
    return certificate, key


def test_files_that_changed_are_read_if_they_match(tmp_path: Path) -> None:
    certificate, key = write(tmp_path, "one.example")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    renewal = CertificateRenewal(context, certificate, key)
    assert not renewal.renew()
    write(tmp_path, "another-name.example", with_key=False)
    assert not renewal.renew()
    write(tmp_path, "two-names.example")
    assert renewal.renew()
    assert not renewal.renew()
    key.unlink()
    assert not renewal.renew()
