"""Fixtures of tokens."""

from tests.tokens.fixtures import issuer, service

__all__ = ["issuer", "service"]
