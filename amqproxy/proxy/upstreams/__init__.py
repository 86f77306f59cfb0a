"""Upstream groups: which broker takes a client, and what becomes of brokers that fail.

A client's session asks the `Upstreams` (`upstreams`) for a connection. Its `Route`s (`routes`) choose an
`UpstreamGroup` (`group`) by listener, server name or CEL; the group returns its `Member`s (`member`) in the order in
which they are tried, as its `selection` and their health decide. `Upstreams` opens the connection, sends the client's
protocol header and awaits the broker's first bytes. Until those have arrived the client has seen nothing, so that the
next member may be tried. What the session gets is a `Reached` (`reach`). It keeps its `Member`: the end of the leg to
which a pool would attach.

`member`, `group`, `selection` and `routes` are pure: times are arguments, random numbers are injected. `upstreams`,
`health_checks` and `name_lookups` are thin trio shells around them; the latter two are `group_tasks`. A plain
`[upstream]` is a group with one member, called "main".

Imports: `amqproxy.proxy.upstream`, `amqproxy.proxy.broker_login`, `amqproxy.rules`, `amqproxy.sockets`,
`amqproxy.configuration.config`, trio in the shells.
"""
