"""Packages of extras that are missing."""

from amqproxy.configuration.extras import missing_extra


def test_a_missing_package_is_named_with_its_extra() -> None:
    assert missing_extra("logins", ["msgspec", "json"]) is None
    fault = missing_extra("logins", ["msgspec", "no_such.package", "none_either"])
    assert fault == 'needs no_such.package, which is not installed: run `pip install "amqproxy[logins]"`'
