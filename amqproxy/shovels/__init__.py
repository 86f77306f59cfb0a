"""Shovels by parameter, in RabbitMQ's keys: they move messages between two brokers of any kind, one of which may be
this one, in a process of their own.

`parse_shovel` (`definition`) checks a parameter's value, and `parse_uri` (`broker_uri`) each of its URIs.
`ShovelForwarder` (`shovel_forwarder`) turns deliveries into publishes and confirms into acknowledgements, and
`PropertyChanges` (`property_changes`) adds headers: both are sans-IO. `ShovelRun` (`shovel_run`) is one run over two
connections, `ShovelTask` (`shovel_task`) all runs of a shovel, `Openings` (`openings`) what those share that connect,
and `child` the process that has all of them: `python -m amqproxy.shovels.child`. `BrokerLine` (`broker_line`) is its
line to the broker, `shovel_messages` what goes over it.

In the broker's process, `ShovelStates` (`shovel_states`) follows the parameters and has what the management API shows,
and `ShovelProcess` (`shovel_process`) keeps the process running. A connection to this broker itself is a socket pair,
one end of which the process is given, with a login that the broker has checked.

Imports: `amqproxy.moving`, `amqproxy.proxy`; `amqproxy.broker` in `shovel_states` and `shovel_process`; trio in all but
`definition`, `broker_uri`, `property_changes`, `shovel_forwarder`, `shovel_messages` and `shovel_states`.
"""
