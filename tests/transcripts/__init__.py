"""The two dialects in which tests write down what AMQP peers send, each with one parser.

`lines`: one frame a line, with its arguments: `>> 1 basic.publish routing_key=a`. For tests in which fields matter:
`tests.amqp091.transcript` plays them to a `Connection`, `tests.proxy.interceptor_transcript` to an `Interceptor`, and
the tables of `tests.rules.timeline` contain methods in the same form, with a time before and an outcome behind.

`words`: several frames a line, each with its usual arguments: `1: basic.publish, 1: header 5, 1: body 5`. For tests in
which only the order of frames matters; bytes can be written as words, too. `tests.proxy.stage` plays them over
sockets to a `Session`.
"""
