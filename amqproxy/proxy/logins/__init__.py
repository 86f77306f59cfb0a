"""Logins that end at the proxy: who a client is, and as whom the proxy logs in to the broker for it.

A client's session offers the mechanisms of its listener's `[logins.NAME]`, makes a `LoginAttempt` of the response
(`attempt`), and asks a `LoginCheck` (`login_check`), which returns an `Identity` or raises `LoginDenied`. For the
broker, the session gets a `Credential` (`credential`) from the `CredentialSource` of the upstream, unless the identity
has one of its own or the client's is passed on. Connections whose credential is a token get each new one by
connection.update-secret.

- `logins` has all checks and sources of a config, and their tasks; a reload makes new ones with `read`, then applies
  them.
- `login_renewal` checks the further secrets of a client, by connection.update-secret.
- `configured_login` is the check: it asks `token_check`; `user_directory`, the users of a file, with
  `password_hash`; or `user_service`, by HTTP. `login_memory` remembers accepted logins and joins equal ones,
  `failure_delays` slows guesses, `fair_turns` bounds checks at the same time, fair by `client_network`.
- `credential_sources` makes the sources: `credential_file`, and `renewed_token` with tokens of a `token_issuer` or of
  `addon_tokens`; `successors` passes new ones on. Tokens are read and checked by `amqproxy.tokens`.

Imports: `amqproxy.tokens`, `amqproxy.configuration`, `amqproxy.rules`, `amqproxy.sockets`, `amqproxy.process`,
`amqproxy.taps.metrics`, `amqproxy.addons`, trio in the shells; the packages of the extra `logins` only when they are
needed.
"""
