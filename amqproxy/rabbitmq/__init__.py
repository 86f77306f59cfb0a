"""RabbitMQ's versions: the table of behaviours in which they differ.

The broker answers as one of them, tests ask all of them, and the docs show the table. It is data, and imports nothing.
"""
