"""Readiness for an upgrade of RabbitMQ: who would break, what to change, and which rules bridge it meanwhile.

    findings · definitions · rabbitmq.conf → `Uses` → `Readiness` → text, JSON, HTML, rules

- `use`: a use that the target version refuses, takes differently, or has deprecated.
- `uses`: all uses, each once, and the sources: findings `rabbitmq4-*` of captures, definitions, settings.
- `definitions`, `settings`: the uses in an export of definitions, and in rabbitmq.conf.
- `readiness`: the report.
- `readiness_text`, `readiness_page`: the report as lines, and as an HTML page.

Nothing here reads a file. The differences between versions are in `amqproxy.rabbitmq`.
"""
