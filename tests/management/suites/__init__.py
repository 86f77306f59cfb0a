"""The test suites of RabbitMQ's own clients of the management API, at RabbitMQ 4.3 and at the integrated broker.

rust_suites     rabbitmqadmin 2 and rabbitmq_http_client, from crates.io
go_suite        rabbit-hole, from Go's module proxy
estate          what their set-up scripts make: virtual hosts, users, the cluster's name
run             one peer and one suite in a network namespace, since the suites know the usual ports only
expected        the tests that fail at the integrated broker and pass at RabbitMQ, each with its reason
"""
