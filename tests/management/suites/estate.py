"""The virtual hosts, users and names that the suites' own scripts make before their tests."""

from __future__ import annotations

from tests.management.api import Api

VHOSTS = ("rust/http/api/client", "rust/rabbitmqadmin", "rabbit/hole")

USERS = {"rust3": "", "policymaker": "policymaker"}

EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}


def make_estate(api: Api) -> None:
    """Make it by the API."""
    for vhost in VHOSTS:
        name = vhost.replace("/", "%2F")
        _made(api, f"vhosts/{name}", {})
        _made(api, f"permissions/{name}/guest", EVERYTHING)
    for user, tags in USERS.items():
        _made(api, f"users/{user}", {"password": user, "tags": tags})
        _made(api, f"permissions/%2F/{user}", EVERYTHING)
    _made(api, "cluster-name", {"name": "rabbitmq@localhost"})


def _made(api: Api, path: str, body: object) -> None:
    answer = api.ask("PUT", path, body)
    assert answer.status in (201, 204), (path, answer)
