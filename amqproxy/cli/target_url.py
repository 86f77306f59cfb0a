"""The broker that a command plays against, as its arguments name it, without what other users must not see there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from amqproxy.cli.failure import MISUSED, Failure

if TYPE_CHECKING:
    from amqproxy.replay.target import Target

PASSWORD = "AMQPROXY_PASSWORD"
"""The variable with the password of a user whom an argument names without one: all users of a machine see arguments."""


def target_of(url: str, where: str) -> Target:
    """The target of an amqp:// or amqps:// URL; `where` is the command and the option, for errors."""
    from amqproxy.replay.target import TargetError, parse_target

    try:
        return parse_target(url, password=os.environ.get(PASSWORD))
    except TargetError as error:
        raise Failure(f"{where}: {error}", MISUSED) from None


def credentials_of(text: str, where: str) -> tuple[str, str]:
    """User and password of USER:PASSWORD, or of USER alone where the variable has the password."""
    user, colon, password = text.partition(":")
    if not colon:
        if PASSWORD not in os.environ:
            raise Failure(f"{where} takes USER:PASSWORD, or USER with the password in {PASSWORD}", MISUSED)
        password = os.environ[PASSWORD]
    return user, password
