"""URIs name a broker, this one or another, and are shown without their secrets."""

from __future__ import annotations

import pytest

from amqproxy.configuration.tls_config import ClientTLS
from amqproxy.shovels.broker_uri import CONNECTION_TIMEOUT, parse_uri, without_credentials


@pytest.mark.parametrize(
    ("uri", "vhost", "user", "password"),
    [
        ("amqp://", "/", None, None),
        ("amqp:///", "", None, None),  # as RabbitMQ reads it
        ("amqp:///a%2Fb", "a/b", None, None),
        ("amqp://ann@/v", "v", "ann", None),
        ("amqp://ann:p%40@/v", "v", "ann", "p@"),
    ],
)
def test_without_a_host_it_is_this_broker(uri: str, vhost: str, user: str | None, password: str | None) -> None:
    found = parse_uri(uri)
    assert (found.vhost, found.user, found.password, found.upstream) == (vhost, user, password, None)


@pytest.mark.parametrize(
    ("uri", "address", "vhost", "user", "password"),
    [
        ("amqp://h", "h:5672", "/", "guest", "guest"),
        ("amqps://h", "h:5671", "/", "guest", "guest"),
        ("amqp://u:p@h:1/v", "h:1", "v", "u", "p"),
        ("amqp://u:p@[::1]:1/%2F", "[::1]:1", "/", "u", "p"),
    ],
)
def test_with_a_host(uri: str, address: str, vhost: str, user: str, password: str) -> None:
    found = parse_uri(uri)
    assert found.upstream is not None
    assert (found.upstream.address, found.vhost, found.user, found.password) == (address, vhost, user, password)


def test_parameters() -> None:
    found = parse_uri(
        "amqps://h?cacertfile=/ca&certfile=/c&keyfile=/k&verify=verify_none&server_name_indication=n"
        "&auth_mechanism=external&connection_timeout=1500&heartbeat=3"
    )
    assert found.upstream is not None
    assert found.upstream.tls == ClientTLS(ca="/ca", certificate="/c", key="/k", server_name="n", verify=False)
    assert (found.is_external, found.timeout, found.heartbeat) == (True, 1.5, 3)
    assert parse_uri("amqps://h").upstream.tls == ClientTLS()  # type: ignore[union-attr]
    assert parse_uri("amqp://h?connection_timeout=-1").timeout == CONNECTION_TIMEOUT


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "amqp",
        "http://h",
        "amqp:h",
        "amqp://u:secret@[x",
        "amqp://u:secret@h:99999",
        "amqp://u:secret@h:x",
        "amqp://u:secret@h/a/b",
        "amqp://u:12#secret@h",
        "amqp://u:12?secret@h",
        "amqp://u/secret@h",
        "amqp://u:secret@h?heartbeat=soon",
        "amqp://u:secret@h?heartbeat=70000",
        "amqp://u:secret@h?connection_timeout=soon",
        "amqp://u:secret@h?" + "&".join(f"a{n}=1" for n in range(100)),
    ],
)
def test_what_is_not_valid_is_refused_without_its_password(uri: str) -> None:
    with pytest.raises(ValueError, match="a ") as refused:
        parse_uri(uri)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("amqp://", "amqp://"),
        ("amqp:///v", "amqp:///v"),
        ("amqp://u:p@/v", "amqp:///v"),
        ("amqp://u:p@h:1/v?cacertfile=/x", "amqp://h:1/v"),
        ("amqp://u:p@q@h", "amqp://h"),
        ("amqp://u:p@[x", "amqp://[x"),
        ("amqp://u:p/w@h/v", "amqp://"),
        ("amqp://u:12#34@h", "amqp://"),
        ("amqp://u:p?w@h", "amqp://"),
        ("amqp:u:p@h", "amqp"),
    ],
)
def test_a_uri_is_shown_without_credentials(uri: str, shown: str) -> None:
    assert without_credentials(uri) == shown
