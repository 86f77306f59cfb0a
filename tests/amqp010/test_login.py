"""Who logs in."""

import pytest

from amqproxy.amqp010.login import user_of


@pytest.mark.parametrize(
    ("mechanism", "response", "user"),
    [
        ("PLAIN", b"\0guest\0secret", "guest"),
        ("PLAIN", b"\0g\xffst\0secret", "g\udcffst"),
        ("PLAIN", b"guest", ""),
        ("PLAIN", None, ""),
        ("EXTERNAL", b"somebody", "from its certificate"),
        ("SCRAM-SHA-256", b"n,,n=guest,r=1", "guest"),
        ("SCRAM-SHA-1", b"y,,n=a=2Cb=3Dc,r=1,x=y", "a,b=c"),
        ("SCRAM-SHA-256", b"n,a=other,n=guest,r=1", ""),
        ("SCRAM-SHA-256", b"n,,r=1", ""),
        ("SCRAM-SHA-256", b"", ""),
        ("SCRAM-SHA-256", None, ""),
        ("CRAM-MD5", b"n,,n=guest,r=1", ""),
        (None, None, ""),
    ],
)
def test_user(mechanism: str | None, response: bytes | None, user: str) -> None:
    assert user_of(mechanism, response, "from its certificate") == user
