"""OAuth 2 access tokens (JWT): the keys of their issuer, and checks of their signatures and claims.

A `KeySet` (`key_set`) has the public keys, which it fetches with a `WebClient` (`web_client`) or reads from a file. A
`TokenVerifier` (`token_verifier`) takes a token and returns its claims, or raises `WrongToken`. `token_claims` reads
parts of tokens that nobody has verified. What claims mean is for those who ask: `amqproxy.proxy.logins` finds the user
of a client, `amqproxy.broker` its tags and permissions.

Imports: `amqproxy.configuration`, `amqproxy.process`, trio; the packages of the extra `logins` only when they are
needed.
"""
