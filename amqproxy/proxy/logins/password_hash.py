"""Argon2id hashes of passwords."""

from __future__ import annotations

import re

MEMORY = 19456
"""Memory of new hashes, in KiB. This and `PASSES` are OWASP's first choice, which takes about 20 ms of one core: many
clients may reconnect at once.
"""

PASSES = 2
"""Passes of new hashes over their memory."""

_PARAMETERS = re.compile(r"\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$")


def hash_password(password: str) -> str:
    """Return a new hash of a password; raise `ImportError` without argon2-cffi."""
    from argon2 import PasswordHasher

    return PasswordHasher(time_cost=PASSES, memory_cost=MEMORY, parallelism=1).hash(password.encode())


class NotChecked(Exception):
    """A password could not be checked, for example for want of memory."""


def is_right(hashed: str, password: str) -> bool:
    """Whether a password has this hash; raise `NotChecked` if that cannot be found out.

    This takes tens of milliseconds, without the interpreter's lock.
    """
    from argon2.exceptions import VerificationError, VerifyMismatchError
    from argon2.low_level import Type, verify_secret

    try:
        return verify_secret(hashed.encode(), password.encode("utf-8", "surrogatepass"), Type.ID)
    except VerifyMismatchError:
        return False
    except VerificationError as error:
        raise NotChecked(f"the password cannot be checked: {error}") from None


def decoy(hashed: str) -> str:
    """Return a hash that no password is known to have, and whose check takes as long as that of another hash."""
    found = _PARAMETERS.match(hashed)
    parameters = found[0] if found else f"$argon2id$v=19$m={MEMORY},t={PASSES},p=1$"
    return f"{parameters}{'A' * 22}${'A' * 43}"
