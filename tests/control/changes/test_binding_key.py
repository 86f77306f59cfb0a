"""The name of a binding in paths."""

from amqproxy.control.changes.binding_key import properties_key


def test_the_key_of_a_binding_has_the_form_of_rabbitmqs() -> None:
    assert properties_key("", b"") == "~"
    assert properties_key("a.b", b"") == "a.b"
    assert properties_key("a.*", b"") == "a.%2A"
    assert properties_key("", b"x") != properties_key("", b"y")
    assert len(properties_key("k", b"x")) == len("k~DJ-ruQ")
