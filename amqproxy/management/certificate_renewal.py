"""Renewal of the certificate of the API's listener, when its files change on disk."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

from amqproxy.process.log import logger

INTERVAL = 10.0
"""Seconds between two looks at the files."""

Version = tuple[tuple[int, int, int], ...]


class CertificateRenewal:
    """The certificate and key of one TLS context; new connections get those that were read last."""

    def __init__(self, context: ssl.SSLContext, certificate: Path, key: Path | None) -> None:
        self._context = context
        self._certificate = certificate
        self._key = key
        self._known = self._version()

    async def run(self) -> None:
        """Look at the files every `INTERVAL` seconds, until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL)
            self.renew()

    def renew(self) -> bool:
        """Read the files if they changed; return whether they are used. Invalid ones are logged, and not used."""
        try:
            version = self._version()
            if version == self._known:
                return False
            # A pair that does not match would leave a context with the new certificate and the old key.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self._certificate, self._key)
            self._context.load_cert_chain(self._certificate, self._key)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            logger().warning("certificate not renewed", file=str(self._certificate), reason=str(error))
            return False
        self._known = version
        logger().info("certificate renewed", file=str(self._certificate))
        return True

    def _version(self) -> Version:
        """Return the inodes, sizes and times of the files."""
        files = [self._certificate] if self._key is None else [self._certificate, self._key]
        found = [each.stat() for each in files]
        return tuple([(each.st_ino, each.st_size, each.st_mtime_ns) for each in found])
