"""Switches of clients and their messages from one upstream to another, and back: blue → moving → green.

A `Switch` (`switch`) names two upstreams, the clients it is about, and the queues whose messages follow them; its
`Phase` (`phase`) is a table of events. Both are pure. `SwitchFile` (`switch_file`) keeps the switches across the end of
the proxy, however it ends. `Switches` (`switches`) is the shell: it diverts new clients, tells present ones 320, has
the waiting messages moved by a `MoverProcess` (`mover_process`), and holds publishers meanwhile if a switch is strict.

Imports: `amqproxy.moving`, `amqproxy.proxy`, `amqproxy.rules`; trio in `switch_file`, `switches` and `mover_process`.
"""
