"""`amqproxy top`: a live view of a running proxy in the terminal.

- `samples`: rates and latencies from two samples of the statistics; rates of entries from two lists.
- `views`: the lists shown, with their columns, and the header; `connection_page`: one connection.
- `proxy_source`: queries the proxy, and reconnects after its restart.
- `app`: the page, with textual, which only this module needs.

Imports: `amqproxy.control`'s client library and its tables, asyncio, textual.
"""
