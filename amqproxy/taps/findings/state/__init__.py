"""Findings about the state of the proxy itself, which no frame tells: its upstreams, logins and certificates.

    `ProxyState`, at intervals → `StateInspector` → `Finding`s

- `proxy_state`: the facts, as they are now.
- `state_detector`: the base class of the detectors; `state_inspector`: all of them, and the counts of what they find.
- one file for each kind, as for the kinds of connections.

Such a finding has the stream `NO_CONNECTION`, and the upstream, the member or the file as its `connection`.
"""
