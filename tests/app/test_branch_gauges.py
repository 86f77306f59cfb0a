"""The gauges of distributed transactions."""

from amqproxy.amqp010.results import Xid
from amqproxy.app.branch_gauges import count_branches
from amqproxy.broker.amqp010.transaction_branch import TransactionBranch
from amqproxy.broker.broker import Broker
from amqproxy.taps.metrics import Metrics


def test_branches_are_counted_by_their_state() -> None:
    broker, metrics = Broker(), Metrics()
    count_branches(broker, metrics)

    def counted(state: str) -> float | None:
        return metrics.registry.get_sample_value("amqproxy_dtx_branches", {"state": state})

    assert (counted("open"), counted("prepared")) == (0, 0)
    for vhost, number in ((broker.vhosts["/"], 1), (broker.vhosts["/"], 2), (broker.add_vhost("other"), 3)):
        xid = Xid(number, b"g", b"b")
        vhost.branches[xid.encode()] = branch = TransactionBranch(vhost, xid)
        if number > 1:
            branch.prepared()
    assert (counted("open"), counted("prepared")) == (1, 2)
