"""Tests of qpid_tests.broker_0_10 that fail, each with its reason: they were written for Qpid's C++ broker."""

from __future__ import annotations

_QMF = "asks the broker by QMF, which only the C++ broker has"
_GROUPS = "message groups are refused with 531"
_LAST_VALUES = "last-value queues are refused with 531"
_SEQUENCES = "qpid.queue_msg_sequence is of the C++ broker: refused with 531"
_FAIR_SHARE = "fair share between priorities is of the C++ broker: refused with 531"
_RING = "a ring queue drops its oldest message, and not that of the lowest priority"
_HEADERS = "counts the bytes of the C++ broker's headers"
_HELD = "two of five messages arrive at once, the others when the session that holds them lets them go"
_ACQUIRED = "queue.query counts messages that are acquired, too"

EVERYWHERE = {
    "message.MessageTests.test_ack": "a mistake of its own",
    "message.MessageTests.test_credit_flow_bytes": _HEADERS,
    "message.MessageTests.test_window_flow_bytes": _HEADERS,
    **{
        f"msg_groups.MultiConsumerMsgGroupTests.test_{name}": _QMF
        for name in (
            "default_group_id",
            "move_all",
            "move_count",
            "purge_acquired",
            "purge_count",
            "purge_free",
            "query",
            "reroute",
        )
    },
    **{
        f"new_api.GeneralTests.test_{name}": _QMF
        for name in (
            "ambiguous_create_1",
            "ambiguous_create_2",
            "ambiguous_delete_1",
            "ambiguous_delete_2",
            "node_disambiguation_1",
            "node_disambiguation_2",
        )
    },
    "new_api.GeneralTests.test_qpid_3481_acquired_to_alt_exchange_2_consumers": _HELD,
    "new_api.SequenceNumberTests.test_create_sequence_queue": _SEQUENCES,
    "new_api.SequenceNumberTests.test_get_sequence_number": _SEQUENCES,
    "new_api.SequenceNumberTests.test_sequence_number_gap": _SEQUENCES,
    "priority.PriorityTests.test_fairshare_1": _FAIR_SHARE,
    "priority.PriorityTests.test_fairshare_2": _FAIR_SHARE,
    "priority.PriorityTests.test_fairshare_3": _FAIR_SHARE,
    "priority.PriorityTests.test_fairshare_with_alias": _FAIR_SHARE,
    "priority.PriorityTests.test_ring_queue_1": _RING,
    "priority.PriorityTests.test_ring_queue_2": _RING,
    "priority.PriorityTests.test_ring_queue_3": _RING,
    "priority.PriorityTests.test_ring_queue_4": _RING,
}
"""At Broker-J 9.2.0 and at the integrated broker."""

BROKER_J = EVERYWHERE | {
    "dtx.DtxTests.test_forget_xid_on_completion": _ACQUIRED,
    "dtx.DtxTests.test_get_timeout": "a timeout of 60 s where none was set",
    "dtx.DtxTests.test_implicit_end": "dtx.prepare answers xa-ok though the session of the branch is gone",
    "dtx.DtxTests.test_simple_commit": _ACQUIRED,
    "dtx.DtxTests.test_simple_prepare_commit": _ACQUIRED,
    "dtx.DtxTests.test_simple_prepare_rollback": _ACQUIRED,
    "dtx.DtxTests.test_simple_rollback": _ACQUIRED,
    "exchange.AutodeleteTests.testAutodeleteFanout": "exchanges that are declared auto-delete stay",
    "exchange.AutodeleteTests.testAutodeleteHeaders": "exchanges that are declared auto-delete stay",
    "extensions.ExtensionTests.test_policy_negative_count": "takes any number as a limit",
    "extensions.ExtensionTests.test_policy_negative_size": "takes any number as a limit",
    "extensions.ExtensionTests.test_policy_size_as_float": "takes any number as a limit",
    "extensions.ExtensionTests.test_timed_autodelete": "qpid.auto_delete_timeout is refused with 531",
    "message.MessageTests.test_acquire": _ACQUIRED,
    "message.MessageTests.test_acquire_with_no_accept_and_credit_flow": _ACQUIRED,
    "message.MessageTests.test_no_local_awkward": "local messages stay in a no-local queue",
    "priority.PriorityTests.test_prioritised_delivery_with_alias": "qpid.priorities is refused with 531",
    "queue.QueueTests.test_declare_exclusive": "a subscription without a destination is refused first",
    "queue.QueueTests.test_declare_exclusive_alreadyinuse": "a subscription without a destination is refused",
}

OWN = EVERYWHERE | {
    "exchange.ExchangeTests.testHeadersBindNoMatchArg": "bindings without x-match, which as in RabbitMQ want all",
    "extensions.ExtensionTests.test_timed_autodelete": "the time begins with the last use of the queue",
    "lvq.LVQTests.test_ring_lvq1": _LAST_VALUES,
    "lvq.LVQTests.test_ring_lvq2": _LAST_VALUES,
    "lvq.LVQTests.test_ring_lvq3": _LAST_VALUES,
    "lvq.LVQTests.test_simple": _LAST_VALUES,
    **{
        f"msg_groups.MultiConsumerMsgGroupTests.test_{name}": _GROUPS
        for name in (
            "close",
            "queue_delete",
            "reject",
            "release",
            "send_transaction",
            "simple",
            "simple_browse",
            "transaction",
            "transaction_order",
            "ttl_expire",
        )
    },
    "new_api.GeneralTests.test_nolocal_rerouted": "what an alternate exchange reroutes has no publisher any more",
}
