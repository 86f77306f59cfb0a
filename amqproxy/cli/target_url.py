"""Target broker of a command: parses its URL, and takes secrets from the environment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from amqproxy.cli.failure import MISUSED, Failure

if TYPE_CHECKING:
    from amqproxy.replay.target import Target

PASSWORD = "AMQPROXY_PASSWORD"
"""Variable with the password of a user given without one, since all users of a machine can see arguments."""


def target_of(url: str, where: str) -> Target:
    """Return the target of an amqp:// or amqps:// URL; `where` names the command and option in errors."""
    from amqproxy.replay.target import TargetError, parse_target

    try:
        return parse_target(url, password=os.environ.get(PASSWORD))
    except TargetError as error:
        raise Failure(f"{where}: {error}", MISUSED) from None


def credentials_of(text: str, where: str) -> tuple[str, str]:
    """Return user and password of USER:PASSWORD, or of USER with the password in the variable."""
    user, colon, password = text.partition(":")
    if not colon:
        if PASSWORD not in os.environ:
            raise Failure(f"{where} takes USER:PASSWORD, or USER with the password in {PASSWORD}", MISUSED)
        password = os.environ[PASSWORD]
    return user, password
