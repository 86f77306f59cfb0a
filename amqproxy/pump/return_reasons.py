"""Why a pump gives a connection back, as numbers that C has too."""

METHOD_COMES, ENDED, GONE, STUCK, RECALLED, FORCED, LARGE, WRONG, CROWDED, TRICKLING = range(1, 11)
"""A frame that it does not know; a peer has closed its half; one is gone; one takes nothing; it was asked to; it has
had `most_frames`; a frame larger than its buffer; a frame that may not come; too much is held of all; a frame that does
not become whole."""

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
"""The same as metrics call them."""
