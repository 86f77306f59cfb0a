"""Bytes to and from one peer, over TCP, a socket pair or TLS: what the proxy and the broker share.

A `Transport` (`transport`) carries them, and `tls` makes contexts from the files that the config names; `certificate`
reads the user from a client's certificate, `proxy_protocol` sends a broker the client's address. Nothing here knows
AMQP. Imports: `amqproxy.configuration`, trio.
"""
