"""Codes of 0-9-1 as those of 0-10."""

import pytest

from amqproxy.conversion.amqp010.error_codes import connection_code, session_code


@pytest.mark.parametrize(
    ("code", "expected"),
    [(403, 403), (404, 404), (406, 406), (311, 506), (312, 404), (504, 409), (530, 530), (999, 541)],
)
def test_of_sessions(code: int, expected: int) -> None:
    assert int(session_code(code)) == expected


@pytest.mark.parametrize(("code", "expected"), [(200, 200), (320, 320), (402, 402), (501, 501), (530, 320), (541, 320)])
def test_of_connections(code: int, expected: int) -> None:
    assert int(connection_code(code)) == expected
