from __future__ import annotations

import socket
import ssl
import sys


def attempt(port: int, authority: str, version: str, file: str) -> str:
    context = ssl.create_default_context(cafile=authority)
    context.minimum_version = context.maximum_version = {
        "1.2": ssl.TLSVersion.TLSv1_2,
        "1.3": ssl.TLSVersion.TLSv1_3,
    }[version]
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Python 3.13's default: the authority has no keyUsage
    context.set_ciphers("DEFAULT:@SECLEVEL=0")  # else this end would refuse to load a weak key
    context.load_cert_chain(file)
    try:
        with (
            socket.create_connection(("127.0.0.1", port), 30) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secured,
        ):
            return "ok" if secured.recv(1) else "closed"
    except OSError as error:
        return str(error)


port, authority, *rest = sys.argv[1:]
for version, file in zip(rest[::2], rest[1::2], strict=True):
    sys.stdout.write(attempt(int(port), authority, version, file).replace("\n", " ") + "\n")
