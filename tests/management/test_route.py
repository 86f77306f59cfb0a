"""Paths, and who may use them."""

from __future__ import annotations

import pytest

from amqproxy.management.access import Access, User, check_access
from amqproxy.management.failure import Failure
from amqproxy.management.route import Routes
from amqproxy.management.routes import ROUTES

PERMITTED = frozenset({"/"})


@pytest.mark.parametrize(
    ("path", "route", "values"),
    [
        (b"/api/queues", "queues", {}),
        (b"/api/queues/", "queues", {}),
        (b"/api/queues/%2F", "queues/{vhost}", {"vhost": "/"}),
        (b"/api/queues/a%2Fb/c%20d?x=1", "queues/{vhost}/{name}", {"vhost": "a/b", "name": "c d"}),
        (b"/api/users/without-permissions", "users/without-permissions", {}),
        (b"/api/queues/detailed", "queues/detailed", {}),
    ],
)
def test_paths_are_matched_before_they_are_decoded(path: bytes, route: str, values: dict[str, str]) -> None:
    found = Routes(ROUTES).find(path, (4, 3))
    assert found is not None
    assert (found.route.path, found.values) == (route, values)


@pytest.mark.parametrize("path", [b"/api/nope", b"/queues", b"/api", b"/", b"/api/queues///x", b"*"])
def test_other_paths_have_no_route(path: bytes) -> None:
    assert Routes(ROUTES).find(path, (4, 3)) is None


def test_versions_have_paths_of_their_own() -> None:
    routes = Routes(ROUTES)
    assert routes.find(b"/api/version", (3, 10)) is None
    assert routes.find(b"/api/health/checks/node-is-mirror-sync-critical", (4, 0)) is None
    found = routes.find(b"/api/queues/detailed", (3, 10))
    assert found is not None
    assert found.values == {"vhost": "detailed"}


def test_no_route_hides_another() -> None:
    for version in ((3, 10), (4, 0), (4, 3)):
        routes = Routes(ROUTES)
        for route in ROUTES:
            if route.since <= version < route.until:
                path = route.full_path.replace("{", "").replace("}", "")
                found = routes.find(path.encode(), version)
                assert found is not None
                assert found.route is route


@pytest.mark.parametrize(
    ("access", "tags", "values", "reason"),
    [
        (Access.MANAGEMENT, (), {}, "Not management user"),
        (Access.MONITOR, ("policymaker",), {}, "Not monitor user"),
        (Access.ADMINISTRATOR, ("monitoring",), {}, "Not administrator user"),
        (Access.POLICYMAKER, ("monitoring",), {}, "User not authorised to access object"),
        (Access.SELF_OR_MONITOR, ("management",), {"user": "bob"}, "User not authorised to access object"),
        (Access.VHOST, ("monitoring",), {"vhost": "other"}, "User not authorised to access virtual host"),
    ],
)
def test_users_without_the_tag_or_the_permissions_are_refused(
    access: Access, tags: tuple[str, ...], values: dict[str, str], reason: str
) -> None:
    with pytest.raises(Failure) as refused:
        check_access(access, User("ann", tags, PERMITTED), values, hides_vhosts=False)
    assert (refused.value.status, refused.value.body["reason"]) == (401, reason)


def test_rabbitmq_4_hides_virtual_hosts_without_permissions() -> None:
    user = User("ann", ("monitoring",), PERMITTED)
    with pytest.raises(Failure) as refused:
        check_access(Access.VHOST, user, {"vhost": "other"}, hides_vhosts=True)
    assert refused.value.status == 404


@pytest.mark.parametrize(
    ("access", "tags", "values"),
    [
        (Access.MANAGEMENT, ("management",), {}),
        (Access.MONITOR, ("monitoring",), {}),
        (Access.ADMINISTRATOR, ("x", "administrator"), {}),
        (Access.POLICYMAKER, ("policymaker",), {}),
        (Access.SELF_OR_MONITOR, ("management",), {"user": "ann"}),
        (Access.VHOST, ("management",), {"vhost": "/"}),
        (Access.VHOST, ("administrator",), {"vhost": "other"}),
        (Access.VHOST_POLICYMAKER, ("administrator",), {"vhost": "other"}),
        (Access.VHOST_OR_MONITOR, ("monitoring",), {"vhost": "other"}),
    ],
)
def test_others_are_let_in(access: Access, tags: tuple[str, ...], values: dict[str, str]) -> None:
    check_access(access, User("ann", tags, PERMITTED), values, hides_vhosts=True)
