"""The requests of the control socket: one line of JSON each, tagged by `request`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

import msgspec

from amqproxy.configuration.config_file import explained
from amqproxy.control.changes.any_change import AnyChange
from amqproxy.control.message_patch import MessagePatch
from amqproxy.control.request_error import RequestError
from amqproxy.moving.move_job import MovedQueue
from amqproxy.rules.access.refuse import Way
from amqproxy.switching.switch import SwitchName

PROTOCOL = 1
"""Version of the control protocol: a larger one is not compatible; additions do not change it."""

MOST_BODY = 1024 * 1024
"""Upper limit of the bytes of a body that are shown."""

MOST_SHOWN = 1000
"""Upper limit of the messages of a queue that one request shows, or skips."""

Excerpt = Annotated[int, msgspec.Meta(ge=0, le=MOST_BODY)]
"""Bytes of a body that are shown."""

MAX_CREDIT = 1_000_000
"""Upper limit of a subscription's credit, in batches."""

Credit = Annotated[int, msgspec.Meta(ge=1, le=MAX_CREDIT)]

MAX_TEMPORARY_SECONDS = 86_400.0
"""Upper limit of the seconds for which a temporary rule is in force."""

ChannelNumber = Annotated[int, msgspec.Meta(ge=1, le=65_535)]


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="request"):
    """The base of all requests; `id` is returned with the response."""

    id: int | str | None = None


class Reload(Request, frozen=True, tag="reload"):
    """Read the rules of the config file again."""


class ListRules(Request, frozen=True, tag="rules"):
    """List the rules, and what they have done."""


class CheckRules(Request, frozen=True, tag="rules-check"):
    """Check rules as the config file is checked, and do no more.

    They are given as `rules`, or as a `text` in a `format`; `name` is what errors call it.
    """

    rules: list[Any] | None = None
    text: str | None = None
    format: Literal["toml", "yaml", "json"] = "toml"
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=1000)] = "rules"

    def __post_init__(self) -> None:
        if (self.rules is None) == (self.text is None):
            raise ValueError("give `rules` or a `text`")


class SetRules(CheckRules, frozen=True, tag="rules-set"):
    """Put rules in the place of all that there are, until the config file is read again."""


class AddRule(Request, frozen=True, tag="rules-add"):
    """Put a temporary rule before all others for `seconds`; reloads and `rules-set` leave it in force.

    `rule` is as in a config file. If its name is taken, the rule gets another.
    """

    rule: dict[str, Any]
    seconds: Annotated[float, msgspec.Meta(gt=0, le=MAX_TEMPORARY_SECONDS)] = 600.0


class EndRule(Request, frozen=True, tag="rules-end"):
    """End a temporary rule before its time."""

    rule: str


class RemoveRule(Request, frozen=True, tag="rules-remove"):
    """Remove a lasting rule until the next reload."""

    rule: str


class GetRules(Request, frozen=True, tag="rules-get"):
    """Show the rules in force, as a config has them."""


class ShadowRule(Request, frozen=True, tag="rules-shadow"):
    """Switch a rule to shadow mode, in which it only counts its effects, until the config file is read again."""

    rule: str


class EnforceRule(Request, frozen=True, tag="rules-enforce"):
    """Switch a rule from shadow mode to enforcing, until the config file is read again."""

    rule: str


class ListSessions(Request, frozen=True, tag="sessions"):
    """List the sessions."""


class Hello(Request, frozen=True, tag="hello"):
    """Tell which version of the control protocol is spoken, and which requests there are."""


class ListConnections(Request, frozen=True, tag="connections"):
    """List the connections, with the properties of each."""


class ListChannels(Request, frozen=True, tag="channels"):
    """List the channels, of one session or of all."""

    session: int | None = None


class ListConsumers(Request, frozen=True, tag="consumers"):
    """List the consumers, of one session or of all."""

    session: int | None = None


class ShowTopology(Request, frozen=True, tag="topology"):
    """List the exchanges, queues, bindings and consumers that clients have made or used, in one virtual host or in all.

    With `deleted`, those that were deleted come last.
    """

    vhost: str | None = None
    deleted: bool = False


class ShowStats(Request, frozen=True, tag="stats"):
    """Show the counters of the whole process."""


class ListHeld(Request, frozen=True, tag="held"):
    """List the held commands."""

    body: Excerpt = 1024


class WatchHeld(Request, frozen=True, tag="watch"):
    """List the held commands, then send an event for each new one."""

    body: Excerpt = 1024


class Release(Request, frozen=True, tag="release"):
    """Release the held command of this number in that session: pass, drop or refuse it.

    `with`, `code` and `text` are for a refusal, and mean what they mean in a rule; `edit` is for what passes.
    """

    session: int
    number: int
    verdict: Literal["pass", "drop", "refuse"] = "pass"
    edit: MessagePatch | None = None
    way: Way | None = msgspec.field(default=None, name="with")
    code: Annotated[int, msgspec.Meta(ge=200, le=999)] | None = None
    text: str | None = None

    def __post_init__(self) -> None:
        if self.edit is not None and self.verdict != "pass":
            raise ValueError(f"what is to {self.verdict} is not edited: `edit` needs the verdict `pass`")
        if self.verdict != "refuse" and (self.way, self.code, self.text) != (None, None, None):
            raise ValueError("`with`, `code` and `text` need the verdict `refuse`")


class CloseSession(Request, frozen=True, tag="close"):
    """End a session with connection.close 320, or one channel with channel.close 406; both peers receive the text."""

    session: int
    channel: ChannelNumber | None = None
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] = "closed by an operator"


class Pause(Request, frozen=True, tag="pause"):
    """Queue the commands of a session's client, or those on one channel, instead of forwarding them."""

    session: int
    channel: ChannelNumber | None = None


class Resume(Request, frozen=True, tag="resume"):
    """Forward the commands queued by `pause`, and those to come."""

    session: int
    channel: ChannelNumber | None = None


class Subscribe(Request, frozen=True, tag="subscribe"):
    """Send an event for each frame, or for each message, or all as packets, and for each finding, from now on.

    `filter` is a CEL expression: only the commands for which it holds; `body` is how many bytes of a body are shown.
    Packets are whole, of both `legs`; with `once`, what is the same on both comes only on the client's.
    Events begin now, or with what the ring still has. With a `credit`, that many batches of events come before `more`
    is asked for. What is older than `max_age`, in seconds, when its turn comes is skipped, if it came after this.
    """

    frames: bool = False
    messages: bool = False
    findings: bool = False
    packets: bool = False
    filter: str | None = None
    body: Excerpt = 0
    legs: Literal["both", "once"] = "both"
    since: Literal["now", "start"] = msgspec.field(default="now", name="from")
    credit: Credit | None = None
    max_age: Annotated[float, msgspec.Meta(gt=0, le=3600)] | None = None

    def __post_init__(self) -> None:
        kinds = self.frames, self.messages, self.packets
        if not (any(kinds) or self.findings):
            raise ValueError("subscribe to `frames`, `messages`, `findings` or `packets`")
        if sum(kinds) > 1 or (self.frames and self.findings):
            raise ValueError("subscribe to `frames`, or to `messages` or `packets`, each perhaps with `findings`")
        if self.packets and self.body:
            raise ValueError("`packets` are whole: they have no `body`")
        if self.legs != "both" and not self.packets:
            raise ValueError("`legs` are of `packets`")
        if self.filter is not None and not (self.frames or self.messages):
            raise ValueError("`filter` selects `frames` or `messages`")


class More(Request, frozen=True, tag="more"):
    """Allow a subscription `credit` further batches of events.

    With a `max_age`, in seconds, what is older than that by now is skipped, if it came after the subscription.
    """

    credit: Credit
    max_age: Annotated[float, msgspec.Meta(ge=0, le=3600)] | None = None


class StartRecording(Request, frozen=True, tag="record-start"):
    """Record the traffic from now on. `settings` are keys of [record] in the config, in place of the proxy's own."""

    settings: dict[str, Any] = {}


class StopRecording(Request, frozen=True, tag="record-stop"):
    """End the recording, and complete its last file."""


class ShowRecording(Request, frozen=True, tag="record-status"):
    """Return the status of the recording, or of the last one if none is running."""


class ListUpstreams(Request, frozen=True, tag="upstreams"):
    """List the members of all upstreams."""


class ListPools(Request, frozen=True, tag="pools"):
    """List the pools of upstream connections that clients share."""


MemberAddress = Annotated[str, msgspec.Meta(min_length=1, max_length=300)]

Rate = Annotated[float, msgspec.Meta(ge=0, le=10_000)]
"""Clients a second."""


class DrainUpstream(Request, frozen=True, tag="upstreams-drain"):
    """Drain a member: it takes no new clients, and `rate` of its present ones a second are told to reconnect."""

    member: MemberAddress
    upstream: str | None = None
    rate: Rate = 0.0


class EjectUpstream(Request, frozen=True, tag="upstreams-eject"):
    """Leave a member out for `seconds`; its present clients stay."""

    member: MemberAddress
    upstream: str | None = None
    seconds: Annotated[float, msgspec.Meta(gt=0, le=86_400)] = 300.0


class RestoreUpstream(Request, frozen=True, tag="upstreams-restore"):
    """End a member's drain or ejection: it takes clients again."""

    member: MemberAddress
    upstream: str | None = None


class WeighUpstream(Request, frozen=True, tag="upstreams-weight"):
    """Set a member's weight, until the config has another one or the proxy ends."""

    member: MemberAddress
    weight: Annotated[int, msgspec.Meta(ge=0, le=1000)]
    upstream: str | None = None


class RebalanceUpstream(Request, frozen=True, tag="upstreams-rebalance"):
    """Tell `rate` clients a second to reconnect, until no member has a tenth more than its share."""

    upstream: str
    rate: Annotated[float, msgspec.Meta(gt=0, le=10_000)] = 50.0


class ListSwitches(Request, frozen=True, tag="switches"):
    """List the switches between upstreams."""


class ListSwitchQueues(Request, frozen=True, tag="switches-queues"):
    """List the queues of a switch, with what was moved of each."""

    switch: str


class CompareSwitch(Request, frozen=True, tag="switches-compare"):
    """Compare the queues of a switch at its source and its target: whether they exist, and their depths."""

    switch: str


class BeginSwitch(Request, frozen=True, tag="switches-begin"):
    """Switch the clients that are routed to `source`, or some of them, to `target`, and the messages of `queues`.

    `vhost` and the CEL expression `when` choose clients; `switch` is a name. With `finds_queues`, messages of queues
    that clients have declared follow, too. With `strict`, publishes wait until the queues at the source are empty. Each
    second `rate` clients are told to reconnect.
    """

    source: str
    target: str
    switch: SwitchName | None = None
    vhost: str | None = None
    when: str | None = None
    strict: bool = False
    rate: Annotated[float, msgspec.Meta(gt=0, le=10_000)] = 50.0
    queues: Annotated[list[MovedQueue], msgspec.Meta(max_length=50_000)] | None = None
    finds_queues: bool = True


class BackSwitch(Request, frozen=True, tag="switches-back"):
    """Lead the clients and messages of a switch back to its source."""

    switch: str


class ForthSwitch(Request, frozen=True, tag="switches-forth"):
    """Lead the clients and messages of a switch to its target again."""

    switch: str


class SettleSwitch(Request, frozen=True, tag="switches-settle"):
    """End the move of a switch's messages: those that are not moved stay where they are."""

    switch: str


class ForgetSwitch(Request, frozen=True, tag="switches-forget"):
    """Forget a settled switch: afterwards the routes of the config decide."""

    switch: str


class ListBrokerQueues(Request, frozen=True, tag="broker-queues"):
    """List the queues of the integrated broker, in one virtual host or in all."""

    vhost: str | None = None


class ListBrokerConnections(Request, frozen=True, tag="broker-connections"):
    """List the clients of the integrated broker."""


class ListBrokerTransactions(Request, frozen=True, tag="broker-transactions"):
    """List the branches of distributed transactions in the integrated broker, in one virtual host or in all."""

    vhost: str | None = None


class ShowBrokerMessages(Request, frozen=True, tag="broker-messages"):
    """Show what waits in a queue of the integrated broker, from the next message on, and leave it there."""

    queue: str
    vhost: str = "/"
    skip: Annotated[int, msgspec.Meta(ge=0, le=MOST_SHOWN)] = 0
    count: Annotated[int, msgspec.Meta(ge=1, le=MOST_SHOWN)] = 50
    body: Excerpt = 1024


class ShowBroker(Request, frozen=True, tag="broker"):
    """Show the broker's version, listeners, resources and alarms."""


class LogInToBroker(Request, frozen=True, tag="broker-login"):
    """Check a user's password, and show its tags, the virtual hosts that it may use, and whether `vhost` exists."""

    user: str
    password: str
    loopback: bool = False
    vhost: str | None = None
    takes_token: bool = False
    """Whether the password may be an OAuth 2 token: the one who asks then sends it with each change."""
    has_token: bool = False
    """Whether the password must be an OAuth 2 token, which names the user."""


QueueSort = Literal["vhost", "name", "consumers", "memory", "messages", "messages_ready", "messages_unacknowledged"]
"""Columns by which the broker sorts queues."""

ObjectKind = Literal[
    "vhosts",
    "users",
    "permissions",
    "topic-permissions",
    "queues",
    "exchanges",
    "bindings",
    "queue-bindings",
    "exchange-bindings",
    "source-bindings",
    "policies",
    "operator-policies",
    "parameters",
    "global-parameters",
    "shovels",
    "connections",
    "channels",
    "consumers",
    "totals",
]


class QueuePage(msgspec.Struct, frozen=True):
    """The part of a list of queues that is wanted, in the order of `sort`, then of virtual hosts and names.

    `name` is a part of the names, without regard to case. `vhosts` are those that the user sees, None for all; `count`
    is None for everything. `names`, each of virtual host and queue, are wanted instead, in this order. With `brief`,
    entries have only the names.
    """

    sort: QueueSort = "vhost"
    reverse: bool = False
    name: str = ""
    offset: Annotated[int, msgspec.Meta(ge=0)] = 0
    count: Annotated[int, msgspec.Meta(ge=1)] | None = None
    vhosts: list[str] | None = None
    names: list[tuple[str, str]] | None = None
    brief: bool = False


class ListBrokerObjects(Request, frozen=True, tag="broker-objects"):
    """List a broker's objects of one kind, of one virtual host, of one name, or all; the response comes in pieces.

    With a `page`, queues are sorted and selected; with its `count`, the numbers of all and of matching ones come first.
    """

    kind: ObjectKind
    vhost: str | None = None
    name: str | None = None
    page: QueuePage | None = None


class SampleBroker(Request, frozen=True, tag="broker-samples"):
    """List the counts of the broker's objects that changed after the sample `since`; the response comes in pieces."""

    since: Annotated[int, msgspec.Meta(ge=0)] = 0


class ChangeBroker(Request, frozen=True, tag="broker-change"):
    """Make a change on behalf of a user, within the user's permissions; the response comes once it is on disk."""

    user: str
    change: AnyChange
    token: str | None = None
    """The OAuth 2 token of a user that the broker does not have."""


class CloseBrokerConnection(Request, frozen=True, tag="broker-close"):
    """Close a client's connection to the integrated broker with 320 and a text, by its number in `broker-objects`."""

    session: int
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


AnyRequest = (
    Hello
    | ListConnections
    | ListChannels
    | ListConsumers
    | ShowTopology
    | ShowStats
    | Reload
    | ListRules
    | GetRules
    | SetRules
    | CheckRules
    | AddRule
    | EndRule
    | RemoveRule
    | ShadowRule
    | EnforceRule
    | ListSessions
    | ListHeld
    | WatchHeld
    | Release
    | CloseSession
    | Pause
    | Resume
    | ListPools
    | ListUpstreams
    | DrainUpstream
    | EjectUpstream
    | RestoreUpstream
    | WeighUpstream
    | RebalanceUpstream
    | ListSwitches
    | ListSwitchQueues
    | CompareSwitch
    | BeginSwitch
    | BackSwitch
    | ForthSwitch
    | SettleSwitch
    | ForgetSwitch
    | ListBrokerQueues
    | ListBrokerConnections
    | ListBrokerTransactions
    | ShowBrokerMessages
    | ShowBroker
    | LogInToBroker
    | ListBrokerObjects
    | SampleBroker
    | ChangeBroker
    | CloseBrokerConnection
    | StartRecording
    | StopRecording
    | ShowRecording
    | Subscribe
    | More
)
_decoder: msgspec.json.Decoder[AnyRequest] = msgspec.json.Decoder(AnyRequest)


REQUESTS: tuple[str, ...] = tuple(each.__struct_config__.tag for each in get_args(AnyRequest))
"""The names of all requests."""

BROKER_REQUESTS = frozenset(
    each.__struct_config__.tag
    for each in (ListBrokerQueues, ListBrokerConnections, ListBrokerTransactions, ShowBrokerMessages)
)
"""Names of the requests that only an integrated broker can answer."""

MANAGEMENT_REQUESTS = frozenset(
    each.__struct_config__.tag
    for each in (ShowBroker, LogInToBroker, ListBrokerObjects, SampleBroker, ChangeBroker, CloseBrokerConnection)
)
"""Names of the requests of management APIs, which only an integrated broker can answer."""

SWITCH_REQUESTS = frozenset(
    each.__struct_config__.tag
    for each in (
        ListSwitches,
        ListSwitchQueues,
        CompareSwitch,
        BeginSwitch,
        BackSwitch,
        ForthSwitch,
        SettleSwitch,
        ForgetSwitch,
    )
)
"""Names of the requests that only a proxy with `[switching]` can answer."""

PROXY_REQUESTS = SWITCH_REQUESTS | frozenset(
    each.__struct_config__.tag
    for each in (
        ListRules,
        GetRules,
        SetRules,
        CheckRules,
        AddRule,
        EndRule,
        RemoveRule,
        ShadowRule,
        EnforceRule,
        ListHeld,
        WatchHeld,
        Release,
        Pause,
        Resume,
        ListPools,
        ListUpstreams,
        DrainUpstream,
        EjectUpstream,
        RestoreUpstream,
        WeighUpstream,
        RebalanceUpstream,
    )
)
"""Names of the requests that a broker by itself cannot answer."""


class _Addressed(msgspec.Struct):
    id: int | str | None = None


def parse(line: bytes | bytearray) -> AnyRequest:
    """Decode a line as a request. `RequestError` with the name "malformed" if it is not one."""
    try:
        return _decoder.decode(line)
    except msgspec.ValidationError as error:
        raise RequestError("malformed", explained(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError("malformed", f"a request is one line of JSON: {error}") from None


def id_of(line: bytes | bytearray) -> int | str | None:
    """Return the id of an invalid request, for the error response; None if there is none."""
    try:
        return msgspec.json.decode(line, type=_Addressed).id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
