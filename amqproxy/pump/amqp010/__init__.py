"""AMQP 0-10 in pumps.

A scanner keeps, for each channel, the assembly state of each track and the number of commands that have begun, so that
the ids of later commands are known. A connection is given back before a control or command that changes the
connection, the attached sessions or the numbering of their commands (such as session.detach, session.command-point and
execution.exception), before a control in more than one frame, and before unknown ones; completions, settlements,
credit, declares and heartbeats pass.
"""
