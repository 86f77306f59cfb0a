"""Pools: upstream connections on which many clients publish (see docs/howto/share-upstream-connections.md).

A pooled client logs in as to a broker (`pool_login`; `SharedAttempts` are made once for all who wait), and has in the
upstream's place a `PooledTransport`, so that its session sees an ordinary connection. Each of its channels, which
`ClientPlace` has, is a fresh channel of a `SharedConnection`, which is pure; `SharedUpstream` is the trio shell around
it. Recorders see these connections as `SharedLeg`s. Only what cannot harm other clients is sent there, as `sharing`
decides: confirm.select and whole publishes. Methods that may fail hard are tried first on the pool's `Scout`. For
everything else the client is *pinned*: it continues, at the same place in each channel, on an upstream connection of
its own.

A `Pool` has the connections of one member, virtual host and credential; `Pools` has all those of an upstream group. It
trusts credentials for a time (`CredentialTrust`), and keeps the `SpareConnections` on which it has checked them.
"""
