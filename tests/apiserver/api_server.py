"""A Kubernetes API server with its etcd, on free loopback ports: `go build` has made both from go.mod."""

from __future__ import annotations

import json
import secrets
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import trustme

from tests.real.poll import until
from tests.real.ports import free_port

Object = dict[str, Any]


class Refused(Exception):
    """The server does not take an object; the text has its reason."""


class ApiServer:
    """Ready once constructed. Nothing runs the pods: there are no controllers."""

    def __init__(self, programs: Path, directory: Path) -> None:
        self._directory = directory
        self._token = secrets.token_hex(20)
        self._kinds: dict[str, list[Object]] = {}
        self._processes: list[subprocess.Popen[bytes]] = []
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        port = free_port()
        self._url = f"https://127.0.0.1:{port}"
        authority = trustme.CA()
        issued = authority.issue_cert("127.0.0.1")
        issued.private_key_pem.write_to_path(directory / "tls.key")
        issued.cert_chain_pems[0].write_to_path(directory / "tls.crt")
        (directory / "tokens").write_text(f"{self._token},admin,admin,system:masters\n")
        self._context = ssl.create_default_context()
        authority.configure_trust(self._context)
        try:
            self._start(
                programs / "etcd",
                f"--data-dir={directory / 'etcd'}",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                "--unsafe-no-fsync",
            )
            self._start(
                programs / "kube-apiserver",
                f"--etcd-servers={client}",
                f"--secure-port={port}",
                "--bind-address=127.0.0.1",
                f"--tls-cert-file={directory / 'tls.crt'}",
                f"--tls-private-key-file={directory / 'tls.key'}",
                f"--service-account-key-file={directory / 'tls.key'}",
                f"--service-account-signing-key-file={directory / 'tls.key'}",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--token-auth-file={directory / 'tokens'}",
                "--authorization-mode=RBAC",
                "--service-cluster-ip-range=10.96.0.0/16",
            )
            until(self._is_ready, "the API server to be ready", deadline=180, pause=0.5)
        except BaseException:
            self.kill()
            raise

    @property
    def version(self) -> str:
        found = self._ask("GET", "/version")[0]
        return f"{found['major']}.{found['minor']}"

    def knows(self, found: Object) -> bool:
        """Whether the server has the kind of an object, which may be of an operator that is not here."""
        return any(each["kind"] == found["kind"] for each in self._kinds_of(found["apiVersion"]))

    def apply(self, found: Object, namespace: str | None = None) -> tuple[Object, list[str]]:
        """The object as the server keeps it, after a server-side apply of strict fields, and warnings. `Refused`."""
        [kind] = [
            each
            for each in self._kinds_of(found["apiVersion"])
            if each["kind"] == found["kind"] and "/" not in each["name"]
        ]
        place = f"/namespaces/{namespace}" if kind["namespaced"] else ""
        path = f"{_group(found['apiVersion'])}{place}/{kind['name']}/{found['metadata']['name']}"
        return self._ask("PATCH", f"{path}?fieldManager=helm&fieldValidation=Strict&force=true", found)

    def kill(self) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()

    def _start(self, program: Path, *options: str) -> None:
        with (self._directory / f"{program.name}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen([program, *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            )

    def _is_ready(self) -> bool:
        for process in self._processes:
            if process.poll() is not None:
                logs = [file.read_text()[-3000:] for file in sorted(self._directory.glob("*.log"))]
                raise RuntimeError("\n".join(logs))
        try:
            self._ask("GET", "/apis/apps/v1")
        except (OSError, Refused):
            return False
        return True

    def _kinds_of(self, version: str) -> list[Object]:
        if version not in self._kinds:
            try:
                self._kinds[version] = self._ask("GET", _group(version))[0]["resources"]
            except Refused:
                self._kinds[version] = []
        return self._kinds[version]

    def _ask(self, method: str, path: str, body: Object | None = None) -> tuple[Object, list[str]]:
        request = urllib.request.Request(
            self._url + path,
            json.dumps(body).encode() if body else None,
            {"Authorization": f"Bearer {self._token}"}
            | ({"Content-Type": "application/apply-patch+yaml"} if body else {}),
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=60, context=self._context) as response:
                return json.load(response), response.headers.get_all("Warning") or []
        except urllib.error.HTTPError as error:
            with error:
                raise Refused(error.read().decode(errors="replace")) from None


def _group(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"
