"""Certificates and keys in files."""

from pathlib import Path

import trustme


class Files:
    """An authority, a server's certificate for `localhost`, a client's, and a key that fits neither."""

    def __init__(self, directory: Path) -> None:
        authority = trustme.CA()
        self.ca = self._write(directory / "ca.pem", authority.cert_pem)
        server, client = authority.issue_cert("localhost"), authority.issue_cert("client@example")
        self.server = self._write(directory / "server.pem", *server.cert_chain_pems)
        self.server_key = self._write(directory / "server.key", server.private_key_pem)
        stranger = trustme.CA().issue_cert("client@example")
        self.stranger = self._write(directory / "stranger.pem", *stranger.cert_chain_pems)
        self.stranger_key = self._write(directory / "stranger.key", stranger.private_key_pem)
        self.client = self._write(directory / "client.pem", *client.cert_chain_pems)
        self.client_key = self._write(directory / "client.key", client.private_key_pem)

    @staticmethod
    def _write(path: Path, *blobs: trustme.Blob) -> str:
        path.write_bytes(b"".join(blob.bytes() for blob in blobs))
        return str(path)
