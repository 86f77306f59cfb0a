"""Work on the messages of a queue of any AMQP 0-9-1 broker: show, move, edit, bring back, keep in a file.

A run is one pass through the queue from its head, of at most as many messages as it held at the start: `look_through`
(`runs`) has a `QueuePass` (`queue_pass`) do it. `QueueReader` (`queue_reader`) gets messages with basic.get, so that
only those are touched which the run looks at. The filter chooses, in CEL; an `Action` settles the chosen messages batch
by batch: it shows them (`peek`), publishes them elsewhere (`move`, with the places in `destination`, and `edit` changes
them first; `own_copies` knows those that the run gets again), or writes them to a file (`drain`). A message is
acknowledged once it is on the other side for sure, by a confirm or by fsync. All others are returned together at the
end, in their order as far as the broker keeps it:
`disturbance` knows what a return does to order, `redelivered` and delivery counts, and refuses where a message could
die of it; `rescue` puts copies of messages at the delivery limit to the queue's end, also when a run fails.
`stream_reader` reads streams, from which nothing is taken; `fill` publishes the messages of a file.

`ConfirmingPublisher` (`confirming_publisher`) publishes with `mandatory` and confirms; `publish_window` finds out which
message a return means, and `batch_failure` keeps the outcomes that are known when a batch fails. `HeldMessage`
(`held_message`) is an unacknowledged message, `message_line` its form in JSON, `message_capture` in pcapng.
`queue_facts` finds out what kind of queue it is, over the management API (`broker_api`) where AMQP cannot say it.
`run_report` is the outcome of a run, `audit` its line in a file; `batch_journal` notes what an ended process may have
left on both sides, so that the next run counts it. `edited_changes` notes what an edit changed, `drain_file`
chooses the form of a drain's file. `run_program` does a `RunTask` (`run_task`) in a process of its own: the dashboard
has such processes.

Nothing here prints: commands and screens pass an action, and get a `RunReport` and progress.

Imports: `amqproxy.moving`, `amqproxy.bodies`, `amqproxy.capture`, `amqproxy.rules` and below; trio in `queue_reader`,
`confirming_publisher`, `queue_pass`, `stream_reader`, `broker_api`, `fill`, `runs` and `run_program`.
"""
