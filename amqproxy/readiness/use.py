"""A use of RabbitMQ that the target version refuses, takes differently, or has deprecated."""

from __future__ import annotations

from typing import Literal

import msgspec

Source = Literal["traffic", "definitions", "settings"]


class Use(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One use, and where it was found.

    `kind` is that of a finding in docs/findings.md, or of a definition or setting. `level` is "breaks", "changes" or
    "deprecated", and `effect` what RabbitMQ does, after its name and version. `client` is the product and version of
    the program, `user` its login. `times` is how often it was seen. `has_rule` is whether a rule of the proxy bridges
    it.
    """

    kind: str
    level: str
    source: Source
    use: str
    client: str | None = None
    user: str | None = None
    times: int = 1
    effect: str
    why: str
    remedy: str
    has_rule: bool = False
