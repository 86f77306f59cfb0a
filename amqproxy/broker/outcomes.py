"""What becomes of messages that were handed out."""

ACK, REQUEUE, REJECT, GIVE_BACK = "ack", "requeue", "reject", "give back"
"""Done; back to its place; not wanted by anybody; back, since whoever had it is gone."""
