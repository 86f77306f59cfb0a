"""Reasons for which a pump gives a connection back, as numbers shared with C."""

METHOD_COMES, ENDED, GONE, STUCK, RECALLED, FORCED, LARGE, WRONG, CROWDED, TRICKLING = range(1, 11)
"""An unknown frame or one kept for the session; a peer closed its half; a peer is gone; a peer takes nothing; a recall;
`most_frames` were relayed; a frame larger than the buffer; an invalid frame; too many bytes held for all connections; a
frame that stays incomplete."""

REASONS = {
    METHOD_COMES: "method",
    ENDED: "end",
    GONE: "gone",
    STUCK: "stuck",
    RECALLED: "recall",
    FORCED: "test",
    LARGE: "large",
    WRONG: "error",
    CROWDED: "memory",
    TRICKLING: "incomplete",
}
"""The reasons by their label values in metrics."""
