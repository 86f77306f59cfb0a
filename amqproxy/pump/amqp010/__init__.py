"""AMQP 0-10 in pumps.

What a scanner knows of a channel is the state of each of its tracks in its assembly, and how many commands have begun,
so that ids of later commands are known. A connection is given back before a control or command that changes the
connection, the attached sessions or the numbering of their commands (such as session.detach, session.command-point and
execution.exception), before a control in more than one frame, and before unknown ones; completions, settlements,
credit, declares and heartbeats pass.
"""
