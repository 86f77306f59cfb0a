"""The composition root: what runs is wired together here, in one nursery.

`proxy_program` is `amqproxy run`, `broker_program` is `amqproxy broker`. Both open `listeners`, and the doors and the
taps by which they are watched, which are `watchers`; both set up the `interpreter` for serving, and follow `signals`.
`branch_gauges` count what the integrated broker has of transactions;
`pump_threads` begins the pumps of a proxy, as many as its cores and its `cpu_quota` allow;
`thread_time` is what the event loop uses of one. `preflight` checks before a start what a config needs, `reload`
applies a changed one; `dashboard_process` runs the dashboard beside a proxy, `printing` carries records to standard
output.
They know all other parts, and in which order these begin and end; only `cli` imports them.
"""

from amqproxy.app.address_unavailable import AddressUnavailable as AddressUnavailable
from amqproxy.app.broker_program import export as export
from amqproxy.app.broker_program import run_broker as run_broker
from amqproxy.app.proxy_program import run as run
