"""What one protocol can say and the other cannot."""

from amqproxy.conversion.inexpressible import Inexpressible


def test_it_is_a_value_error_with_a_text() -> None:
    assert isinstance(Inexpressible("no"), ValueError)
    assert str(Inexpressible("no")) == "no"
