"""The composition root: wires the parts of the running programs together, in one nursery.

`proxy_program` is `amqproxy run`, `broker_program` is `amqproxy broker`. Both open `listeners`, and `watchers`: the
sockets and taps of observers; both set up the `interpreter` for serving, and react to `signals`. `branch_gauges` count
the integrated broker's transaction branches; `pump_threads` starts the pumps of a proxy, by its cores and its
`cpu_quota`; `thread_time` is the CPU time of the event loop. `preflight` checks the prerequisites of a config, `reload`
applies a changed one; `dashboard_process` runs the dashboard beside a proxy as a `web_process`, `printing` prints
records to standard output. They know all other parts, and their order of start and end; only `cli` imports them.
"""

from amqproxy.app.address_unavailable import AddressUnavailable as AddressUnavailable
from amqproxy.app.broker_program import export as export
from amqproxy.app.broker_program import run_broker as run_broker
from amqproxy.app.proxy_program import run as run
