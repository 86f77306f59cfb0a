"""`amqproxy hash-password`: hashes a password for a file of users."""

from __future__ import annotations

import sys

from amqproxy.cli.failure import FAILED, MISUSED, Failure


def hash_password() -> None:
    """Print the argon2id hash of a password, for the file of a login.

    The password is asked for at a terminal, and is otherwise the first line of standard input. It is never an argument,
    which other programs could see.
    """
    from amqproxy.configuration.extras import missing_extra
    from amqproxy.proxy.logins import password_hash

    fault = missing_extra("logins", ["argon2"])
    if fault is not None:
        raise Failure(f"hash-password: {fault}", FAILED)
    password = _asked() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise Failure("hash-password: the password is empty", MISUSED)
    print(password_hash.hash_password(password))


def _asked() -> str:
    """Ask for a password twice, without showing it."""
    from getpass import getpass

    password = getpass("Password: ")
    if getpass("Again: ") != password:
        raise Failure("hash-password: the two passwords differ", MISUSED)
    return password
