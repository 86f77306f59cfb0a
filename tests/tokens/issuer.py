"""An issuer of tokens."""

from __future__ import annotations

import hmac
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Any

import msgspec
from joserfc import jws
from joserfc.jwk import ECKey, OKPKey, RSAKey


class Issuer:
    """Keys by id, and tokens that they sign."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {
            "rsa": RSAKey.generate_key(2048, {"kid": "rsa", "use": "sig"}),
            "other": RSAKey.generate_key(2048, {"kid": "other", "use": "sig"}),
            "ec": ECKey.generate_key("P-256", {"kid": "ec", "alg": "ES256"}),
            "ed": OKPKey.generate_key("Ed25519", {"kid": "ed"}),
        }

    def key_set(self, *kids: str) -> bytes:
        """The public keys, as the issuer serves them."""
        return msgspec.json.encode({"keys": [self.keys[kid].as_dict(private=False) for kid in kids or self.keys]})

    def token(self, kid: str = "rsa", alg: str = "RS256", header: dict[str, Any] | None = None, **claims: Any) -> str:
        """A token; a claim or a part of the header that is None is left out."""
        now = time.time()
        parts = {"iss": "https://issuer", "aud": "amqp", "sub": "orders", "exp": now + 300, "nbf": now - 1} | claims
        head = {"alg": alg, "kid": kid} | (header or {})
        model = jws.JWSRegistry(algorithms=[alg]).get_alg(alg)
        return signed(head, parts, lambda data: model.sign(data, self.keys[kid]))

    def confused(self) -> str:
        """A token that is signed by HS256 with the public RSA key as the secret."""
        secret = self.keys["rsa"].as_pem(private=False)
        claims = {"sub": "admin", "exp": time.time() + 60}
        return signed({"alg": "HS256", "kid": "rsa"}, claims, lambda data: hmac.digest(secret, data, "sha256"))


def signed(header: dict[str, Any], claims: dict[str, Any], sign: Callable[[bytes], bytes]) -> str:
    parts = [{key: value for key, value in part.items() if value is not None} for part in (header, claims)]
    content = b".".join(_encoded(msgspec.json.encode(part)) for part in parts)
    return (content + b"." + _encoded(sign(content))).decode()


def _encoded(data: bytes) -> bytes:
    return urlsafe_b64encode(data).rstrip(b"=")
