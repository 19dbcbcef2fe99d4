"""The three spellings say the same, and each remembers its lines."""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from routerd.config import Config, ConfigError, parse
from routerd.config.entities.attribute import Entity
from routerd.config.entities.policy import Vhost

CONF = """\
# Router for two applications, as qdrouterd reads it
router {
    mode: standalone
    id: QDR.A            # our name
    worker-threads: 3
    defaultDistribution: unavailable
}

listener {
    name: clients
    host: ::1
    port: amqp
    saslMechanisms: ANONYMOUS
    authenticatePeer: No
    idle-timeout-seconds: 60
    linkCapacity: 1000
}

address {
    prefix: news
    distribution: multicast
}
org.apache.qpid.dispatch.router.config.address {
    pattern: orders.*.#   # the rest
    priority: 9
}
log {
    module: SERVER
    enable: debug,warning+
    includeSource: on
}
"""

JSON = """\
[
  # qdrouterd takes comments here, too
  ["router", {"mode": "standalone", "id": "QDR.A", "worker-threads": 3,
              "defaultDistribution": "unavailable"}],
  ["listener", {"name": "clients", "host": "::1", "port": "amqp", "saslMechanisms": "ANONYMOUS",
                "authenticatePeer": false, "idle-timeout-seconds": 60, "linkCapacity": "1000"}],
  ["address", {"prefix": "news", "distribution": "multicast"}],
  ["org.apache.qpid.dispatch.router.config.address", {"pattern": "orders.*.#", "priority": 9}],
  ["log", {"module": "SERVER", "enable": "debug,warning+", "includeSource": true},],
]
"""

JSON_OBJECT = """\
{
  "router": {"mode": "standalone", "id": "QDR.A", "workerThreads": 3, "defaultDistribution": "unavailable"},
  "listener": [{"name": "clients", "host": "::1", "port": "amqp", "saslMechanisms": "ANONYMOUS",
                "authenticatePeer": "no", "idleTimeoutSeconds": 60, "linkCapacity": 1000}],
  "address": [{"prefix": "news", "distribution": "multicast"}, {"pattern": "orders.*.#", "priority": 9}],
  "log": {"module": "SERVER", "enable": "debug,warning+", "includeSource": true}
}
"""

TOML = """\
[router]
mode = "standalone"
id = "QDR.A"
worker-threads = 3
defaultDistribution = "unavailable"

[[listener]]
name = "clients"
host = "::1"
port = "amqp"
saslMechanisms = "ANONYMOUS"
authenticatePeer = false
idle-timeout-seconds = 60
linkCapacity = 1000

[[address]]
prefix = "news"
distribution = "multicast"

[[address]]
pattern = "orders.*.#"
priority = 9

[[log]]
module = "SERVER"
enable = "debug,warning+"
includeSource = true
"""


def mistakes(text: str, file: str) -> list[str]:
    with pytest.raises(ConfigError) as error:
        parse(text, file)
    return [str(mistake) for mistake in error.value.mistakes if not mistake.warning]


def content(config: Config) -> list[Entity]:
    """All entities, without the lines on which they stand."""
    groups: list[Iterable[Entity]] = [config.listeners, config.addresses, config.logs, config.entities]
    entities = [config.router, config.policy, *(entity for group in groups for entity in group)]
    return [replace(entity, line=0) for entity in entities]


def test_conf_is_read_completely() -> None:
    """Every attribute of the .conf arrives, with its type."""
    config = parse(CONF, "a.conf")
    assert (config.router.id, config.router.workers) == ("QDR.A", 3)
    assert config.router.default_distribution == "unavailable"
    (listener,) = config.listeners
    assert (listener.name, listener.host, listener.port, listener.port_number) == ("clients", "::1", "amqp", 5672)
    assert (listener.idle_timeout_seconds, listener.link_capacity) == (60, 1000)
    assert [(a.prefix, a.pattern, a.priority) for a in config.addresses] == [
        ("news", None, None),
        (None, "orders.*.#", 9),
    ]
    (log,) = config.logs
    assert (log.module, log.enable, log.include_source, log.include_timestamp) == (
        "SERVER",
        "debug,warning+",
        True,
        None,
    )
    assert config.count == 5


@pytest.mark.parametrize(("text", "file"), [(JSON, "a.json"), (JSON_OBJECT, "a.JSON"), (TOML, "a.toml")])
def test_spellings_agree(text: str, file: str) -> None:
    """The same router in another spelling is the same configuration."""
    assert content(parse(text, file)) == content(parse(CONF, "a.conf"))


@pytest.mark.parametrize(
    ("text", "file", "line"),
    [(CONF, "a.conf", 9), (JSON, "a.json", 5), (JSON_OBJECT, "a.json", 3), (TOML, "a.toml", 7)],
)
def test_entities_know_their_line(text: str, file: str, line: int) -> None:
    """What goes wrong with a listener later can be told with the place where it is configured."""
    (listener,) = parse(text, file).listeners
    assert listener.line == line


@pytest.mark.parametrize(("text", "file"), [(CONF, "a.conf"), (JSON, "a.json"), (TOML, "a.toml")])
def test_windows_line_ends_are_read(text: str, file: str) -> None:
    assert content(parse(text.replace("\n", "\r\n"), file)) == content(parse(CONF, "a.conf"))


@pytest.mark.parametrize(
    ("text", "file", "line"),
    [
        ("\nlistener {\n  port: amqp\n  cost: x\n}\n", "f.conf", 4),
        ('[["router", {}],\n ["listener", {\n  "port": "amqp",\n  "cost": "x"\n}]]', "f.json", 4),
        ('{"router": {},\n "listener": [\n{"port": 1}, {"port": 2,\n  "cost": "x"}]}', "f.json", 4),
        ('[[listener]]\nport = 1\n[[listener]]\ncost = "x"\n', "f.toml", 4),
        ('[listener]\n\n\n"cost" = "x"\n', "f.toml", 4),
        ('\n\n\nlistener.cost = "x"\n', "f.toml", 4),
    ],
)
def test_mistake_stands_at_its_line(text: str, file: str, line: int) -> None:
    """A wrong value is told with the line on which it stands, in every spelling."""
    assert mistakes(text, file) == [
        f"{file}:{line}: listener cost: 'x' does not fit; give a whole number from 1 to 2147483647"
    ]


def test_hash_is_a_comment_but_for_wildcards() -> None:
    """`#` belongs to patterns and host names; elsewhere it ends the value."""
    config = parse("address {\npattern: #  # all\ndistribution: closest#!\n}\naddress {\n prefix: a/#\n}\n", "f.conf")
    assert [(a.pattern, a.prefix, a.distribution) for a in config.addresses] == [
        ("#", None, "closest"),
        (None, "a/#", "balanced"),
    ]
    assert [w.line for w in config.warnings if "begins a comment" in w.text] == [3]


def test_block_of_json_over_several_lines() -> None:
    """openProperties takes JSON with a trailing comma, and the lines after it still count right."""
    text = 'listener {\n openProperties: {\n  "a": 1, # one\n  "b": {"c": [true, null,],},\n }\n cost: x\n}\n'
    why = "f.conf:6: listener cost: 'x' does not fit; give a whole number from 1 to 2147483647"
    assert mistakes(text, "f.conf") == [why]
    config = parse(text.replace("cost: x", "cost: 1"), "f.conf")
    assert config.listeners[0].open_properties == {"a": 1, "b": {"c": [True, None]}}


@pytest.mark.parametrize("quote", ["", '"'])
def test_vhost_groups_with_and_without_quotes(quote: str) -> None:
    """User groups are read as plain lines and as JSON, and each setting is checked at its line."""
    comma = "," if quote else ""
    text = f"""vhost {{
    hostname: *.example.com   # all of them
    groups: {{
        {quote}admin{quote}: {{
            {quote}users{quote}: {quote}a, b{quote}{comma}
            {quote}remoteHosts{quote}: {quote}*{quote}{comma}
            {quote}maxSenders{quote}: {quote}many{quote}
        }}{comma}
        {quote}$default{quote}: {{ {quote}remoteHosts{quote}: {quote}10.0.0.1{quote}
        }}
    }}
}}
"""
    told = mistakes(text, "f.conf")
    assert len(told) == 1
    assert told[0].startswith("f.conf:7: vhostUserGroupSettings maxSenders: 'many' does not fit")
    (vhost,) = parse(text.replace("many", "5"), "f.conf").entities
    groups = vhost.groups  # type: ignore[attr-defined]  # a Vhost
    assert (groups["admin"]["users"], groups["admin"]["maxSenders"]) == ("a, b", 5)
    assert groups["$default"]["remoteHosts"] == "10.0.0.1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("router {\n id: A\n", ["f.conf:1: section 'router' is not closed"]),
        ("router {\n id: A\nlistener {\n}\n", ["f.conf:3: section 'listener' begins inside section 'router'"]),
        ("router\n{\n}\n", ["f.conf:1: '{' stands on a line of its own; write 'router {' instead"]),
        ("router { mode: standalone }\n", ["f.conf:1: 'router {' stands before an attribute; put each on a line"]),
        ("router { mode: standalone\n id: A\n}\n", ["f.conf:1: 'router {' stands before an attribute"]),
        ("vhost { hostname: v }\nrouter {\n id: A\n}\n", ["f.conf:1: 'vhost {' stands before an attribute"]),
        ("listener {\n port: 5672 }\nrouter {\n id: A\n}\n", ["f.conf:2: '}' stands behind the value of port; put"]),
        ("listener {\n port: 5672 }\n", ["f.conf:2: '}' stands behind the value of port; put it on a line of its own"]),
        ("id: A\n", ["f.conf:1: 'id' is outside a section"]),
        (
            "router: {\n id: A\n nix\n}\n",
            ["f.conf:1: no colon stands between a section's name", "f.conf:3: 'nix' is not"],
        ),
        ("router {\n id:\n mode interior\n}\n", ["f.conf:2: id has no value", "f.conf:3: 'mode interior' is not"]),
        ('router {\n id: "A"\n}\n', ['f.conf:2: id: "A" is in quotes']),
        ("listener {\n openProperties: {\n  a: 1\n }  x\n}\n", ["f.conf:4: 'x' follows the block"]),
        ("listener {\n openProperties: {\n  a: 1\n", ["f.conf:1: section 'listener'", "f.conf:2: what begins here"]),
    ],
)
def test_malformed_conf(text: str, expected: list[str]) -> None:
    """What is not the .conf syntax is told with its line, and reading goes on behind it."""
    told = mistakes(text, "f.conf")
    assert len(told) == len(expected)
    assert all(line.startswith(start) for line, start in zip(told, expected, strict=True)), told


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("", "f.json:1: the text ends too early"),
        ("[\n[1]\n]", "f.json:2: [1] is not an entity"),
        ('[\n["router", {}]', "f.json:1: what begins here is not closed"),
        ('[["router", {"id":\n A}]]', "f.json:2: 'A}]]' is not a JSON value"),
        ('[["router", {}]\n["log", {}]]', "f.json:2: "),
        ("[]\n[]", "f.json:2: '[]' follows the end"),
        ('["a\n"]', "f.json:1: this text in quotes"),
        ('[["router", {"workers": 01e9}]]', "f.json:1: '01e9' is not a number"),
        ('{"router": 5}', "f.json:1: 'router' is 5"),
        ("7", "f.json:1: 7 is not a configuration"),
        ("[" * 5000, "f.json:1: blocks are nested"),
        ('[["router", {"workers": ' + "9" * 5000 + "}]]", "f.json:1: the number"),
    ],
)
def test_malformed_json(text: str, start: str) -> None:
    told = mistakes(text, "f.json")
    assert len(told) == 1
    assert told[0].startswith(start)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("[router]\nid = A", "f.toml:2: this is not TOML"),
        ("[router", "f.toml:1: this is not TOML"),
        ("[router]\nid = 'A'\nid = 'B'", "f.toml:3: this is not TOML"),
        ("router = 5", "f.toml:1: 'router' is 5 outside a table"),
        ("router = [5]", "f.toml:1: 'router' is 5 outside a table"),
        ("[router]\nid = 1979-05-27\nmode = 1979-05-27", "f.toml:3: router mode: "),
        ("a = " + "[" * 5000, "f.toml:1: arrays or tables are nested"),
        ("[listener]\n" + "a." * 5000 + "b = 1", "f.toml:2: arrays or tables are nested"),
        ("[[listener]]\nport = 1\nopenProperties = " + "[" * 99 + "]" * 99, "f.toml:3: arrays or tables are"),
        ("[router]\nworkers = " + "9" * 5000, "f.toml:1: this is not TOML"),
        ("[router]\nworkers = 0x" + "f" * 5000, "f.toml:2: the number is too long; give one that fits 64 bits"),
        ("[[listener]]\nopenProperties = {a = [0x" + "f" * 5000 + "]}", "f.toml:2: the number is too long"),
        ("a = 0o" + "7" * 9000, "f.toml:1: the number is too long"),
    ],
)
def test_malformed_toml(text: str, start: str) -> None:
    told = mistakes(text, "f.toml")
    assert len(told) == 1
    assert told[0].startswith(start)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("#", "#"),
        ("#.${user}", "#.${user}"),
        ("#/${user} # of everybody", "#/${user}"),
        ("a.*, #, b", "a.*, #, b"),
        ("a,#", "a,#"),
        ("a, #.b,", "a, #.b"),
        ("a.# # all of a", "a.#"),
        ("a, b, # and so on", "a, b"),
        ("a#b", "a#b"),
    ],
)
def test_a_hash_is_a_wildcard_where_a_word_may_stand(written: str, read: str) -> None:
    """In a user group, too; behind a blank it begins a comment as it always did."""
    group = f"g: {{\nsourcePattern: {written}\ntargetPattern: */agent\n}}\n"
    text = f"vhost {{\nhostname: h\ngroups: {{\n{group}}}\n}}\n"
    (vhost,) = parse(text + "listener {\nport: 0\n}\n", "f.conf").entities
    assert isinstance(vhost, Vhost)
    found = vhost.user_groups["g"]
    assert (found.source_pattern, found.target_pattern) == (read, "*/agent")


@pytest.mark.parametrize("nothing", ["", "# nobody", ","])
def test_a_line_without_a_value_does_not_take_the_next_one(nothing: str) -> None:
    """It is named, with its line."""
    text = f"vhost {{\nhostname: h\ngroups: {{\ng: {{\nusers: {nothing}\nsources: a\n}}\n}}\n}}\n"
    with pytest.raises(ConfigError, match=r"f.conf:5: users has no value; give one, or remove the line"):
        parse(text, "f.conf")


def test_aliases_may_be_patterns() -> None:
    text = "vhost {\nhostname: h\naliases: a, #.example, *.b # three\n}\nlistener {\nport: 0\n}\n"
    (vhost,) = parse(text, "f.conf").entities
    assert isinstance(vhost, Vhost)
    assert vhost.aliases == "a, #.example, *.b"
