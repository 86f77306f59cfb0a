"""The proxy's trio shell, and the crossing in it that carries verdicts out.

`listener` accepts clients, `upstream` reaches the broker. A `Session` (`session`) joins the two: it holds a `Leg`
(`leg`) for each, which is a `Transport` of `amqproxy.sockets` and the `Connection` that the leg's two peers have made
so far. One task a direction receives, feeds, decides and sends; reading waits for the write, and so a slow reader slows
its own writer only. A `PacedHandshake` (`handshake`) lets a client run ahead of the broker's answers. A `Drain`
(`drain`) says what still passes while a session is being ended; hanging up on those who say or take nothing
(`watchdog`) is beside the data path. What nobody here can read goes through a `Tunnel` (`tunnel`).

Where there are rules, what one leg was told comes to the other through the `Crossing` (`crossing`), which has no trio,
no socket and no clock: `judge` is what it needs of the rules of its session. It has a `Strait` (`strait`) for each
channel whose legs may differ, with a `Flow` (`flow`) in either direction: what waits there, and what becomes of the
content under way. Numbers that differ are given anew (`renumbering`), commands that changed become frames again
(`reframing`), and what has to wait does so in `timers`, which somebody else's clock drives. What rules do to bytes on
their way is done by an `Impaired` (`impaired`), which then stands in the place of a leg's transport. Copies of
publishes go to their `Mirrors` (`mirrors`), each through a `Copyist` (`copyist`).

Taps are told through an `Account` (`account`); a `Selection` (`selection`) before a tap lets by what a filter does.
Imports: `amqproxy.amqp091`, `amqproxy.rules`, `amqproxy.taps`, `amqproxy.sockets`, `amqproxy.config`, trio, structlog.
"""
