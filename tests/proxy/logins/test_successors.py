"""Receivers of new credentials."""

from __future__ import annotations

from amqproxy.proxy.logins.credential import Credential
from amqproxy.proxy.logins.successors import Successors
from amqproxy.rules.rewriting.secret import Secret

NEXT = Credential("proxy", Secret("next"))


def test_each_gets_the_next_one_until_it_leaves() -> None:
    successors = Successors()
    got: list[Credential] = []
    leave = successors.subscribe(got.append)
    successors.subscribe(lambda _: 1 / 0)
    successors.subscribe(got.append)
    successors.publish(NEXT)
    assert got == [NEXT, NEXT]
    leave()
    leave()
    successors.publish(NEXT)
    assert len(got) == 3


def test_one_may_leave_while_it_receives() -> None:
    successors = Successors()
    leaving = [successors.subscribe(lambda _: leaving[0]())]
    got: list[Credential] = []
    successors.subscribe(got.append)
    successors.publish(NEXT)
    successors.publish(NEXT)
    assert got == [NEXT, NEXT]
