"""Message bodies in readable form, by the forms of amqproxy and the decoders of addons.

- `body_views`: the forms, and the registry of addons' decoders.
- `body_child`: the process in which bodies are decoded, since a hostile body may crash a decoder or keep it busy.
- `addon_bodies`: asks it for bodies that lines, reports and exports show. The dashboard has an asynchronous one,
  `amqproxy.dashboard.body_reader`.

Imports: `amqproxy.capture` and below.
"""
