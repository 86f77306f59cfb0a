"""Bytes to and from one peer, over TCP, a socket pair or TLS: what the proxy and the broker share.

A `Transport` (`transport`) carries them, and `tls` makes contexts from the files that the config names; `certificate`
says whom a client's certificate names, `proxy_protocol` tells a broker where a client is. Nothing here knows AMQP.
Imports: `amqproxy.config`, trio.
"""
