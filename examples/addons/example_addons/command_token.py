"""Tokens for brokers: those that a command prints, such as one of a cloud's tools that signs requests.

`[upstream.login]` names it: addon = "command". The function is called in a thread when a token is needed, and again
at two thirds of its lifetime. What it raises is logged, and it is called again; meanwhile, the last token is used.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess


def token(upstream: str) -> tuple[str, float]:
    """Return a token for an upstream of the config, and its lifetime in seconds."""
    command = shlex.split(os.environ["TOKEN_COMMAND"])
    printed = subprocess.run([*command, upstream], capture_output=True, check=True, timeout=20).stdout
    answer = json.loads(printed)
    return answer["access_token"], answer["expires_in"]
