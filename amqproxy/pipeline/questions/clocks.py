"""Clocks of the recorded hosts, as far as messages between them tell.

For each chain of captures: how far its clock was ahead of the others at the least and at the most, by hour, from the
smallest transit times of `messages` to and from other chains. A clock that no message contradicts counts as right. The
latencies between publish and delivery are corrected by these offsets.
"""

from amqproxy.pipeline.questions.question import Question

QUESTION = Question(
    name="clocks",
    about=__doc__,
    sql="""
SELECT c.chain AS chain, min(c.offset_ns) AS least_ahead_ns, max(c.offset_ns) AS most_ahead_ns,
       count(*) FILTER (WHERE c.offset_ns <> 0) AS hours_corrected, count(*) AS hours,
       CAST(sum(c.pairs) AS BIGINT) AS messages
FROM {clocks} c
GROUP BY c.chain
ORDER BY max(abs(c.offset_ns)) DESC, chain
""",
)
