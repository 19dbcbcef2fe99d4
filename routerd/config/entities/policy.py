"""Entities of the policy (qpid-dispatch 1.19 management schema)."""

from typing import Annotated

import msgspec

from routerd.config.entities.attribute import UINT, Entity, State, about
from routerd.config.entities.transport import Right

UNLIMITED_LINKS = 2147483647


class Policy(Entity, frozen=True, kw_only=True, tag="policy"):
    """The policy sets limits of the whole router."""

    max_connections: Annotated[int, about("Client connections at once.", ge=0, update=True)] = 65535
    max_message_size: Annotated[int, about("Largest message in bytes; 0 is no limit.", ge=0, update=True)] = 0
    enable_vhost_policy: Annotated[bool, about("Whether the vhost entities are enforced.", update=True)] = False
    enable_vhost_name_patterns: Annotated[bool, about("Whether vhost names are patterns.", update=True)] = False
    policy_dir: Annotated[str, about("Directory of .json files with more vhosts.", kind="path")] = ""
    default_vhost: Annotated[str, about("Vhost for host names without one of their own.", update=True)] = "$default"


class PolicyState(State, frozen=True, kw_only=True):
    connections_processed: Annotated[int, about("Connections judged.")] = 0
    connections_denied: Annotated[int, about("Connections denied.")] = 0
    connections_current: Annotated[int, about("Connections open.")] = 0
    links_denied: Annotated[int, about("Links denied.")] = 0
    max_message_size_denied: Annotated[int, about("Messages denied for their size.")] = 0
    total_denials: Annotated[int, about("Denials in all.")] = 0


class Vhost(Entity, frozen=True, kw_only=True, tag="vhost"):
    """A vhost sets limits and user groups for clients of one host name."""

    hostname: Annotated[str, about("Host name that clients give in OPEN.", old="id")]
    aliases: Annotated[str, about("Other names of the vhost, separated by blanks or commas.", update=True)] | None = (
        None
    )
    max_connections: Annotated[int, about("Connections at once.", ge=0, update=True)] = 65535
    max_message_size: Annotated[int, about("Largest message in bytes.", ge=0)] | None = None
    max_connections_per_user: Annotated[int, about("Connections at once per user.", ge=0, update=True)] = 65535
    max_connections_per_host: Annotated[int, about("Connections at once per machine.", ge=0, update=True)] = 65535
    allow_unknown_user: Annotated[
        bool, about("Whether users without a group belong to group $default.", update=True)
    ] = False
    groups: Annotated[dict[str, object], about(
        "User groups: a map from name to settings.", kind="groups", update=True)] | None = None  # fmt: skip

    @property
    def user_groups(self) -> "dict[str, UserGroup]":
        """The groups by name."""
        return msgspec.convert(self.groups or {}, dict[str, UserGroup])


class UserGroup(Entity, frozen=True, kw_only=True, tag="vhostUserGroupSettings"):
    """These settings say what the users of one group may do; they stand in the map `groups` of a vhost."""

    users: Annotated[str, about("Users of the group, separated by commas.")] | None = None
    remote_hosts: Annotated[str, about(
        "Machines from which the users connect: addresses, names, ranges `a-b`, or `*`.", default="none"
    )] | None = None  # fmt: skip
    max_connections_per_user: Annotated[int, about("Connections at once per user.", ge=0)] | None = None
    max_connections_per_host: Annotated[int, about("Connections at once per machine.", ge=0)] | None = None
    max_message_size: Annotated[int, about("Largest message in bytes.", ge=0)] | None = None
    max_frame_size: Annotated[int, about("Largest AMQP frame in bytes.", ge=512, le=UINT)] | None = None
    max_session_window: Annotated[int, about("Session window in bytes.", ge=1, le=UINT)] | None = None
    max_sessions: Annotated[int, about("Sessions at once per connection.", ge=1, le=UINT)] | None = None
    max_senders: Annotated[int, about("Sending links at once per connection.", ge=0)] = UNLIMITED_LINKS
    max_receivers: Annotated[int, about("Receiving links at once per connection.", ge=0)] = UNLIMITED_LINKS
    allow_dynamic_source: Annotated[bool, about("Whether receivers may ask for an address.")] = False
    allow_anonymous_sender: Annotated[bool, about("Whether senders may name the address in each message.")] = False
    allow_user_id_proxy: Annotated[bool, about("Whether a message's user-id may name another user.")] = False
    allow_waypoint_links: Annotated[bool, about("Whether links may be waypoints.")] = True
    allow_dynamic_link_routes: Annotated[bool, about("Whether a connection may create link routes.")] = True
    allow_admin_status_update: Annotated[bool, about("Whether a user may close connections.")] = True
    allow_fallback_links: Annotated[bool, about("Whether links may be fallback destinations.")] = True
    management: Annotated[Right, about(
        "What the group's users may do at the management address: nothing, ask, or ask and change.",
        default="as the listener says")] | None = None  # fmt: skip
    sources: Annotated[str, about("Addresses from which the users may receive.")] | None = None
    targets: Annotated[str, about("Addresses to which the users may send.")] | None = None
    source_pattern: Annotated[str, about("The same as patterns.")] | None = None
    target_pattern: Annotated[str, about("The same as patterns.")] | None = None
