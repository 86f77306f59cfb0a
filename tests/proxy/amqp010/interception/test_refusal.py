"""A connection that a rule wants closed."""

from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp091.errors import Scope
from amqproxy.proxy.amqp010.interception.refusal import Amqp010Refusal
from amqproxy.rules.verdict import Close


def test_it_has_the_nearest_code_and_the_text_as_it_is() -> None:
    refusal = Amqp010Refusal(Close(Scope.CONNECTION, 530, "not here"))
    assert isinstance(refusal, ProtocolError)
    assert (int(refusal.code), refusal.reply_text) == (320, "not here")
