"""Byte transports to one peer, over TCP, a socket pair or TLS, shared by the proxy and the broker.

A `Transport` (`transport`) carries the bytes, and `tls` makes contexts from the files in the config; `certificate`
reads the user from a client's certificate, `proxy_protocol` sends a broker the client's address. Nothing here knows
AMQP. Imports: `amqproxy.configuration`, trio.
"""
