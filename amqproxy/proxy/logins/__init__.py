"""Logins that end at the proxy: who a client is, and as whom the proxy logs in to the broker for it.

A client's session offers the mechanisms of its listener's `[logins.NAME]`, makes a `LoginAttempt` of the response
(`attempt`), and asks a `LoginCheck` (`login_check`), which returns an `Identity` or raises `LoginDenied`. For the
broker, the session gets a `Credential` (`credential`) from the `CredentialSource` of the upstream, unless the identity
has one of its own or the client's is passed on. Connections whose credential is a token get each new one by
connection.update-secret.

Imports: `amqproxy.configuration`, `amqproxy.rules`, `amqproxy.sockets`, `amqproxy.process`, trio in the shells.
"""
