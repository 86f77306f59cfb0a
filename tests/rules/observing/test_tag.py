"""Names for commands."""

from __future__ import annotations

import msgspec
import pytest

from amqproxy.amqp091.methods import BasicPublish
from amqproxy.rules.verdict import Verdict
from tests.rules.scene import decided, from_client, rule


def test_commands_are_marked() -> None:
    made = rule('action = "tag"\ntags = ["gdpr", "team:orders"]')
    context = from_client(BasicPublish())
    assert decided(made, context) == Verdict(command=context.command, tags=("gdpr", "team:orders"))
    assert made.is_constant


@pytest.mark.parametrize("tags", ["[]", '[""]', '["two words"]', '["-x"]', '["' + "x" * 65 + '"]'])
def test_what_is_no_tag_is_not_loaded(tags: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        rule(f'action = "tag"\ntags = {tags}')
