"""Tokens for both APIs, with what is asked with each, and how both are started to take them."""

from __future__ import annotations

import hmac
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import trustme

from tests.tokens.issuer import Issuer, signed
from tests.tokens.web_service import Reply, WebService, web_service

TAG, READ, WRITE, CONFIGURE = (f"rabbitmq.{each}" for each in ("tag:", "read:", "write:", "configure:"))

ADMINISTRATOR = (f"{TAG}administrator", f"{READ}*/*", f"{WRITE}*/*", f"{CONFIGURE}*/*")

ALIASES = {"boss": "rabbitmq.tag:administrator rabbitmq.read:*/*"}


class TokenRequest(NamedTuple):
    """Requests with a token, which a function makes when they are sent."""

    name: str
    token: Callable[[Issuer], str]
    asked: tuple[tuple[str, str, Any], ...] = (("GET", "whoami", None),)
    amqp: bool = True
    """Whether a client logs in with the token, too."""

    def __str__(self) -> str:
        return self.name


def token(issuer: Issuer, *scopes: str, kid: str = "rsa", alg: str = "RS256", **parts: Any) -> str:
    """A token with scopes, or with other claims and parts of the header."""
    return issuer.token(kid, alg, **{"aud": "rabbitmq", "scope": list(scopes), "user_name": "tina", **parts})


def _of(name: str, *scopes: str, **parts: Any) -> TokenRequest:
    return TokenRequest(name, lambda issuer: token(issuer, *(scopes or ADMINISTRATOR), **parts))


def _parts(name: str, changed: Callable[[str, str, str], str]) -> TokenRequest:
    return TokenRequest(name, lambda issuer: changed(*token(issuer, *ADMINISTRATOR).split(".")))


def _confused(issuer: Issuer) -> str:
    """A token that is signed by HS256 with the public RSA key as the secret."""
    secret = issuer.keys["rsa"].as_pem(private=False)
    claims = {"aud": "rabbitmq", "user_name": "tina", "exp": time.time() + 300, "scope": list(ADMINISTRATOR)}
    return signed({"alg": "HS256", "kid": "rsa"}, claims, lambda data: hmac.digest(secret, data, "sha256"))


NONE = "eyJhbGciOiJub25lIiwia2lkIjoicnNhIn0"  # {"alg":"none","kid":"rsa"}

SEEN = tuple(("GET", path, None) for path in ("vhosts", "queues/other", "queues/%2F?columns=name", "queues/a%2Fb"))
"""Requests whose answers show which virtual hosts a user sees."""

_MESSAGE = {"properties": {}, "payload": "x", "payload_encoding": "string"}


def _publish(exchange: str, key: str) -> tuple[str, str, Any]:
    return ("POST", f"exchanges/%2F/{exchange}/publish", {**_MESSAGE, "routing_key": key})


def _seen(*scopes: str, **claims: Any) -> TokenRequest:
    made = (f"{TAG}management", *scopes)
    return TokenRequest(" ".join(scopes), lambda issuer: token(issuer, *made, **claims), SEEN)


def _doing(name: str, scopes: tuple[str, ...], *asked: tuple[str, str, Any]) -> TokenRequest:
    return TokenRequest(name, lambda issuer: token(issuer, *scopes), asked, amqp=False)


CORPUS = [
    _of("good"),
    _of("scopes in a text", scope=" ".join(ADMINISTRATOR)),
    _of("audience in a list", aud=["other", "rabbitmq"]),
    _of("audience among words", aud="other rabbitmq"),
    _of("expired", exp=1_000_000),
    _of("no expiry", exp=None),
    _of("expiry in a text", exp="soon"),
    _of("other audience", aud="other"),
    _of("no audience", aud=None),
    _of("other issuer", iss="https://other"),
    _of("wrong key", kid="other", header={"kid": "rsa"}),
    _of("unknown key", kid="other"),
    _of("no key id", header={"kid": None}),
    _of("ES256", kid="ec", alg="ES256"),
    _of("EdDSA", kid="ed", alg="Ed25519", header={"alg": "EdDSA"}),
    _of("PS256", alg="PS256"),
    _of("RS384", alg="RS384"),
    TokenRequest("HS256 with the public key", _confused),
    _parts("none", lambda head, claims, signature: f"{NONE}.{claims}."),
    _parts("none, with a signature", lambda head, claims, signature: f"{NONE}.{claims}.{signature}"),
    _parts("no signature", lambda head, claims, signature: f"{head}.{claims}."),
    _parts("cut signature", lambda head, claims, signature: f"{head}.{claims}.{signature[:-4]}"),
    _parts("other claims", lambda head, claims, signature: f"{head}.{claims[:-8]}{claims[-4:]}.{signature}"),
    TokenRequest("garbage", lambda _: "garbage"),
    _of("no scopes", scope=[]),
    _of("no claim of scopes", scope=None),
    _of("no tags", *ADMINISTRATOR[1:]),
    _of("management", f"{TAG}management", f"{READ}%2F/*"),
    _of("two tags", f"{TAG}policymaker", f"{TAG}management", f"{READ}%2F/*"),
    _of("other prefix", "other.tag:administrator"),
    _of("no prefix", "tag:administrator"),
    _of("an alias", "boss"),
    _of("more scopes in a claim", scope=None, roles={"rabbitmq": ["tag:monitoring", "read:*/*"]}),
    _of("more scopes in objects", scope=None, groups={"mine": [{"scopes": "rabbitmq.tag:monitoring"}]}),
    _of(
        "a requesting party token",
        scope=None,
        authorization={"permissions": [{"scopes": [f"{TAG}monitoring"], "rsname": "x"}, {"scopes": [f"{READ}*/*"]}]},
    ),
    _of("no name", user_name=None),
    _of("a name that is a number", user_name=5),
    _of("the name of a user", f"{TAG}management", f"{READ}%2F/*", user_name="mary"),
    _seen(f"{READ}%2F/*"),
    _seen(f"{READ}other/*"),
    _seen(f"{READ}a%2Fb/x*"),
    _seen(f"{READ}*/*"),
    _seen(f"{READ}o*r/lim*ed/a*"),
    _seen(f"{READ}*er/*"),
    _seen(f"{READ}x"),
    _seen(f"{READ}/"),
    _seen(f"{READ}%zz/*"),
    _seen(f"{WRITE}{{vhost}}/*"),
    _seen(f"{READ}{{team}}/*", team="other"),
    _seen(f"{READ}{{other}}/*"),
    _seen(f"{READ}{{team/*", team="other"),
    _seen("rabbitmq.all:other/*"),
    _doing(
        "configure and bind",
        (f"{TAG}management", f"{CONFIGURE}%2F/q*", f"{WRITE}%2F/q*", f"{READ}%2F/top*", f"{READ}%2F/amq.topic/k.*"),
        ("PUT", "queues/%2F/q1", {"durable": True}),
        ("PUT", "queues/%2F/x1", {"durable": True}),
        ("POST", "bindings/%2F/e/topical/q/q1", {"routing_key": "k.1"}),
        ("POST", "bindings/%2F/e/amq.topic/q/q1", {"routing_key": "k.1"}),
        ("POST", "bindings/%2F/e/amq.topic/q/q1", {"routing_key": "l.1"}),
        ("DELETE", "queues/%2F/limited", None),
    ),
    _doing(
        "publish",
        (f"{TAG}management", *(f"{WRITE}%2F/{each}" for each in ("topical", "amq.topic/a.*", "amq.d*"))),
        _publish("topical", "a.b"),
        _publish("amq.topic", "a.b"),
        _publish("amq.topic", "b.b"),
        _publish("amq.default", "a.b"),
        _publish("amq.direct", "a.b"),
        _publish("amq.fanout", "a.b"),
    ),
    _doing(
        "a new virtual host",
        ADMINISTRATOR,
        ("PUT", "vhosts/fresh", {}),
        ("GET", "vhosts/fresh/permissions", None),
        ("PUT", "queues/fresh/q", {}),
        ("GET", "user-limits/tina", None),
    ),
    _doing(
        "a policymaker",
        (f"{TAG}policymaker", f"{READ}%2F/*"),
        ("PUT", "policies/%2F/p", {"pattern": "x", "definition": {"max-length": 1}}),
        ("PUT", "policies/other/p", {"pattern": "x", "definition": {"max-length": 1}}),
        ("GET", "users", None),
    ),
]
"""Tokens that are accepted and refused, and what they permit, in their order: some change something."""


class KeyService(NamedTuple):
    """The server of the issuer's keys, and the file with its authority."""

    web: WebService
    authority: Path


@contextmanager
def key_service(directory: Path, issuer: Issuer) -> Iterator[KeyService]:
    """A server of keys by HTTPS, without which RabbitMQ does not start."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    file = directory / "authority.pem"
    authority.cert_pem.write_to_path(file)
    with web_service(context) as service:
        keys = issuer.key_set("rsa", "ec", "ed")
        service.answer = lambda _: Reply(keys, headers={"Content-Type": "application/json"})
        yield KeyService(service, file)


def rabbitmq_settings(keys: KeyService) -> Mapping[str, object]:
    """The settings of rabbitmq.conf."""
    return {
        "auth_backends.1": "rabbit_auth_backend_oauth2",
        "auth_backends.2": "internal",
        "auth_oauth2.resource_server_id": "rabbitmq",
        "auth_oauth2.jwks_uri": keys.web.url,
        "auth_oauth2.https.cacertfile": keys.authority,
        "auth_oauth2.preferred_username_claims.1": "user_name",
        "auth_oauth2.additional_scopes_key": "roles groups.mine.scopes",
        "auth_oauth2.scope_aliases.1.alias": "boss",
        "auth_oauth2.scope_aliases.1.scope": ALIASES["boss"],
    }


def own_settings(keys: KeyService) -> Mapping[str, Any]:
    """The settings of `[broker.tokens]`."""
    return {
        "keys": keys.web.url,
        "ca": str(keys.authority),
        "preferred_username_claims": ["user_name"],
        "additional_scopes_key": "roles groups.mine.scopes",
        "scope_aliases": ALIASES,
    }
