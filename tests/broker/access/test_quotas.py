"""What each user may have in a virtual host."""

from __future__ import annotations

from amqproxy.broker.access.quotas import Quota


def test_each_user_has_its_own() -> None:
    quota = Quota(3)
    assert quota.take("one", 2)
    assert not quota.take("one", 2)
    assert quota.take("one")
    assert quota.take("other", 3)
    assert (quota.used("one"), quota.used("other")) == (3, 3)
    quota.give_back("one", 2)
    assert quota.take("one", 2)
    assert not quota.take("one")


def test_what_is_given_back_leaves_nothing() -> None:
    quota = Quota(1)
    assert quota.take("one")
    quota.give_back("one")
    assert quota.used("one") == 0
