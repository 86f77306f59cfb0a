"""`amqproxy top`: a page in the terminal that shows what a running proxy does now.

- `samples`: two samples of the statistics make rates and latencies; two lists make the rates of each entry.
- `views`: the lists that it shows, with their columns.
- `proxy_source`: asks the proxy, and connects again when it was restarted.
- `app`: the page, with textual. Nothing else here needs that.

Imports: `amqproxy.control`'s client library and its tables, asyncio, textual.
"""
