"""Every mistake is found, at its line, with what would be right; what is valid starts."""

import os
from pathlib import Path
from typing import Any

import pytest

from routerd.config import ConfigError, default_config, load, parse
from routerd.config.entities.transport import AuthServicePlugin
from routerd.config.formats import conf_file
from routerd.config.formats.json_text import JsonText
from tests.support.values.mistakes import told

CPUS = sorted(os.sched_getaffinity(0))


def router(*lines: str) -> str:
    return "router {\n" + "\n".join(lines) + "\n}\nlistener {\n}\n"


def test_default_configuration() -> None:
    """Without a file: a standalone router for clients on this machine."""
    config = default_config()
    assert config.router.id.startswith("Standalone_")
    assert len(config.router.id) == len("Standalone_") + 15
    assert config.router.id != default_config().router.id
    assert config.router.workers == 2
    (listener,) = config.listeners
    assert (listener.host, listener.port_number, listener.role) == ("127.0.0.1", 5672, "normal")
    assert (listener.sasl_mechanisms, listener.authenticate_peer) == ("ANONYMOUS", False)
    assert listener.link_capacity is None


def test_missing_singletons_are_added() -> None:
    config = parse("listener {\n port: 1\n}\n", "f.conf")
    assert config.router.id.startswith("Standalone_")
    assert config.policy.max_connections == 65535
    assert config.warnings == ()


def test_link_capacity_of_the_router_is_the_default_of_listeners() -> None:
    text = "router {\n linkCapacity: 7\n}\nlistener {\n port: 1\n}\nlistener {\n port: 2\n linkCapacity: 9\n}\n"
    assert [listener.link_capacity for listener in parse(text, "f.conf").listeners] == [7, 9]


@pytest.mark.parametrize(("value", "cpus"), [("0,1", (0, 1)), ("0-1", (0, 1)), (" 1 , 0 ", (1, 0)), ("0", (0,))])
def test_worker_cpus_as_text(value: str, cpus: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert parse(router(f"workerCpus: {value}"), "f.conf").router.worker_cpus == cpus
    assert parse(f'[router]\nworkerCpus = "{value}"', "f.toml").router.worker_cpus == cpus
    assert parse(f"[router]\nworkerCpus = {list(cpus)}", "f.toml").router.worker_cpus == cpus


@pytest.mark.parametrize(("usable", "workers"), [({3}, 1), ({0, 1}, 1), (set(range(8)), 7), (set(range(200)), 64)])
def test_workers_auto(usable: set[int], workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`auto` leaves one usable CPU to the core, and is at least one worker."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: usable)
    assert parse(router("workers: auto"), "f.conf").router.workers == workers


@pytest.mark.parametrize(
    ("line", "what", "instead"),
    [
        ("workers: many", "router workers: 'many' does not fit", "give a whole number from 1 to 64 or auto"),
        ("workers: 0", "router workers: 0 is out of range", "give a whole number from 1 to 64 or auto"),
        ("arenaSize: 3", "router arenaSize: 3 is out of range", "give a whole number from 4 to 65536"),
        ("stopGraceSeconds: 4", "router stopGraceSeconds: 4 is out of range", "give a whole number from 0 to 3"),
        ("busyPoll: 1.5", "router busyPoll: '1.5' does not fit", "give a whole number from 0 to 1000000"),
        ("allowResumableLinkRoute: maybe", "router allowResumableLinkRoute: 'maybe' does not fit", "give yes or no"),
        ("mode: edgy", "router mode: 'edgy' is not allowed", "give one of edge, interior, standalone (perhaps edge)"),
        ("worker: 3", "router worker: there is no such attribute", "did you mean workers?"),
        (
            "saslMechanisms: PLAIN",
            "router saslMechanisms: there is no such attribute",
            "it belongs to listener or connector",
        ),
        (
            "xyzzy: 3",
            "router xyzzy: there is no such attribute",
            "remove it (docs/configuration.md lists what router takes)",
        ),
        ("id: my router", "router id: 'my router' contains ' '", "give letters, digits and . _ - + : @ ~ = , only"),
        ("id: a/b", "router id: 'a/b' contains '/'", "give letters, digits and . _ - + : @ ~ = , only"),
        (f"id: {'x' * 128}", "router id: exceeds the maximum allowed length", "give at most 127 bytes"),
        ("workerCpus: 2-", "router workerCpus: '2-' does not fit", "give CPU numbers such as 2,3 or 2-5"),
        (
            "workerCpus: 5-2",
            "router workerCpus: '5-2' has no ascending range up to 4095",
            "give CPU numbers such as 2,3 or 2-5",
        ),
        ("workerCpus: 1,1", "router workerCpus: '1,1' names a CPU twice", "give each CPU once"),
        (
            "workerThreads: 2\nworkers: 2",
            "router workers: Both 'workerThreads' and 'workers' cannot be specified for entity 'router'",
            "remove one",
        ),
    ],
)
def test_mistake_in_router(line: str, what: str, instead: str) -> None:
    found = [text.partition(": ")[2] for text in told(router(line)) if "warning" not in text]
    assert found == [f"{what}; {instead}"]


@pytest.mark.parametrize(
    "line", [f"id: {'x' * 127}", "id: Router.A-1_b", "workers: 64", "stopGraceSeconds: 0", "stopGraceSeconds: 3"]
)
def test_limits_themselves_are_allowed(line: str) -> None:
    assert told(router(line)) == []


def test_unknown_cpu_names_the_usable_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 5})
    assert told(router("coreCpu: 4", "workerCpus: 2-6")) == [
        "2: router coreCpu: CPU 4 cannot be used here; give some of 0-2,5",
        "3: router workerCpus: CPU 3, 4, 6 cannot be used here; give some of 0-2,5",
    ]


def test_processes_that_would_share_a_cpu_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pinned to one CPU they take turns, whatever else is free."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    warnings = parse(router("workers: 7", "coreCpu: 1", "workerCpus: 1-3"), "f.conf").warnings
    assert {str(warning) for warning in warnings} == {
        "f.conf:4: warning: router workerCpus: CPU 1 is also the core's (coreCpu), and the two take turns; "
        "give each a CPU of its own",
        "f.conf:4: warning: router workerCpus: 7 workers take turns on 1-3; give a CPU for each, or fewer workers",
    }
    assert parse(router("workers: 3", "coreCpu: 0", "workerCpus: 1-3"), "f.conf").warnings == ()


def test_all_mistakes_are_told_at_once() -> None:
    """Unknown names, wrong values and broken relations of one file are told together, in order of lines."""
    text = """router {
    workerThreads: none
}
listner {
}
listener {
    port: 70000
}
address {
    priority: 12
}
log {
    enable: infa
}
"""
    assert told(text) == [
        "2: warning: router workerThreads: Attribute 'workerThreads' of entity 'router' "
        "has been deprecated. Use 'workers' instead",
        "2: router workers: 'none' does not fit; give a whole number from 1 to 64 or auto",
        "4: there is no entity 'listner'; did you mean 'listener'?",
        "7: listener port: '70000' is out of range; give a port number from 0 to 65535 or a service name such as amqp",
        "9: address: has neither prefix nor pattern; give one of the two",
        "10: address priority: 12 is out of range; give a whole number from 0 to 9",
        "12: log module: is missing; give one of " + MODULES,
        "13: log enable: 'infa' is no level; "
        "give trace, debug, info, notice, warning, error, critical, none or default (perhaps info)",
    ]


MODULES = (
    "AGENT, AUTHSERVICE, CONN_MGR, CONTAINER, DEFAULT, ERROR, HTTP, MESSAGE, POLICY, PROTOCOL, PYTHON, "
    "ROUTER, ROUTER_CORE, ROUTER_HELLO, ROUTER_LS, ROUTER_MA, SERVER"
)


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        ("port: 5672", "port: amqp", True),
        ("host: 0.0.0.0\nport: 1", "port: 1", True),
        ("host: Localhost\nport: 1", "host: localhost\nport: 1", True),
        ("host: 127.0.0.1\nport: 1", "host: 127.0.0.2\nport: 1", False),
        ("port: 1\nsocketAddressFamily: IPv4", "port: 1\nsocketAddressFamily: IPv6", False),
        ("host: 0.0.0.0\nport: 1", "host: ::\nport: 1", False),
        ("port: 0", "port: 0", False),
        ("port: 1", "port: 2", False),
    ],
)
def test_two_listeners_in_one_place(one: str, other: str, clash: bool) -> None:
    text = f"listener {{\n{one}\n}}\nlistener {{\n{other}\n}}\n"
    assert ["is the address of the listener in line 1" in line for line in told(text)] == [True] * clash


@pytest.mark.parametrize(
    ("text", "what", "instead"),
    [
        ("router {\n}\nrouter {\n}\n", "3: router: is already defined in line 1", "there can be only one, merge them"),
        (
            "log {\nmodule: HTTP\n}\nlog {\nmodule: HTTP\n}\n",
            "5: log module: 'HTTP' is already used in line 1",
            "give another",
        ),
        (
            "address {\nname: a\nprefix: x\n}\naddress {\nname: a\nprefix: y\n}\n",
            "6: address name: 'a' is already used in line 1. Name conflicts with an existing entity",
            "give another",
        ),
        (
            "address {\nprefix: a\npattern: a\n}\n",
            "3: address pattern: Both pattern and prefix cannot be specified",
            "give one of the two",
        ),
        (
            "address {\nprefix: a.b\n}\naddress {\npattern: a/b/#\n}\n",
            "5: address pattern: 'a/b/#' is the same as in line 1",
            "remove one of them",
        ),
        (
            "listener {\nhost: [::1]\n}\n",
            "2: listener host: '[::1]' is not a host",
            "give a name or an address without brackets or blanks",
        ),
        (
            "listener {\nhost: ::1\nsocketAddressFamily: IPv4\n}\n",
            "3: listener socketAddressFamily: host '::1' is not an IPv4 address",
            "give IPv6 or another host",
        ),
        (
            "listener {\nport: ampq\n}\n",
            "2: listener port: 'ampq' is not a port",
            "give a port number from 0 to 65535 or a service name such as amqp (perhaps amqp)",
        ),
        (
            "sslProfile {\nname: tls\n}\nconnector {\nsslProfile: tsl\n}\n",
            "5: connector sslProfile: there is no sslProfile named 'tsl'",
            "did you mean 'tls'?",
        ),
        (
            "router.config.binding {\nexchangeName: e\nnextHopAddress: a\n}\n",
            "2: binding exchangeName: there is no exchange named 'e'",
            "add a section exchange with that name",
        ),
        ("linkRoute {\nprefix: a\n}\n", "1: linkRoute direction: is missing", "give one of in, out"),
        ("log {\nmodule: HTTP\noutputFile: /tmp\n}\n", "3: log outputFile: '/tmp' is a directory", "give a file in it"),
    ],
)
def test_broken_relation(text: str, what: str, instead: str) -> None:
    assert [line for line in told(text) if "warning" not in line] == [f"{what}; {instead}"]


def test_a_log_that_cannot_be_written_is_a_warning() -> None:
    """Its disk may be there later: the router serves."""
    assert "3: warning: log outputFile: there is no directory '/nowhere/at'; make it or give another file" in told(
        "log {\nmodule: HTTP\noutputFile: /nowhere/at/all\n}\n"
    )


def test_unserved_feature_is_a_warning() -> None:
    """The router starts, and says what it leaves out."""
    config = parse("listener {\n}\nconsole {\n}\n", "f.conf")
    assert any("not supported by this version" in warning.text for warning in config.warnings)
    assert [listener.port for listener in config.listeners] == ["amqp"]


@pytest.mark.parametrize(
    ("plugin", "what"),
    [
        ("", "host: names no host; "),
        ("authService: h\nhost: h", "authService: repeats host and port; "),
        ("authService: :5", "authService: names no host; "),
        ("host: h\nport: 0\nsslProfile: s", "port: '0' is not a port that a service can have; "),
        ("authService: h:zzz\nsslProfile: s", "authService: 'zzz' is not a service name; "),
        ("host: h", "warning: sslProfile: is missing, so passwords travel to the service in clear text"),
    ],
)
def test_a_service_that_cannot_be_asked(plugin: str, what: str) -> None:
    """A place is needed, and passwords are not for everybody on the way there."""
    text = f"sslProfile {{\nname: s\n}}\nauthServicePlugin {{\nname: auth\n{plugin}\n}}\n"
    rest = what.removeprefix("warning: ")
    found = [one for one in told(text) if rest in one]
    assert [("warning" in one) for one in found] == [what.startswith("warning")]


@pytest.mark.parametrize(
    ("service", "place"),
    [("h", ("h", "amqp")), ("h:5671", ("h", "5671")), ("[::1]:amqps", ("::1", "amqps")), ("[::1]", ("::1", "amqp"))],
)
def test_a_service_by_its_old_name(service: str, place: tuple[str, str]) -> None:
    assert AuthServicePlugin(auth_service=service).place == place


@pytest.mark.parametrize("more", ["protocol: rmr\ntable: t", "http: yes\nwebsockets: no"])
def test_a_service_judges_clients_of_amqp_only(more: str) -> None:
    text = f"authServicePlugin {{\nname: auth\nhost: localhost\n}}\nlistener {{\nsaslPlugin: auth\n{more}\n}}\n"
    assert any("listener saslPlugin: " in one for one in told(text) if "warning" not in one)


def test_an_http_listener_without_tls_is_never_believed_to_be_protected() -> None:
    """It is served in clear text to everybody, so what asks for protection is a mistake."""
    config = parse("listener {\nport: 1\nhttpRootDir: /tmp\n}\n", "f.conf")
    assert [listener.http for listener in config.listeners] == [True]
    with pytest.raises(ConfigError) as refused:
        parse("listener {\nport: 1\nhttp: yes\nauthenticatePeer: yes\n}\n", "f.conf")
    assert "authenticatePeer: does not protect an HTTP listener; give it an sslProfile" in str(refused.value)


def test_what_belongs_to_the_vhost_has_no_effect_in_its_groups() -> None:
    """As in qdrouterd, where groups are not looked at; whatever else is unknown there is a mistake."""
    text = "vhost {\n hostname: a\n groups: {\n  g: {\n   users: *\n   remoteHosts: *\n   {}: 1\n  }\n }\n}\n"
    config = parse(text.replace("{}", "maxConnections"), "f.conf")
    assert "has no effect in a group; write it in the vhost" in str(config.warnings)
    assert "there is no such attribute" in told(text.replace("{}", "allowEverything"))[0]


def test_a_group_that_is_there_twice_is_told() -> None:
    """The later one counts, and the users of the other lose their rights."""
    group = "  g: {\n   remoteHosts: *\n  }\n"
    assert told(f"vhost {{\n hostname: a\n groups: {{\n{group}{group} }}\n}}\n" + "listener {\n}\n") == [
        "7: warning: vhost groups g: is already set in line 4; this value counts, remove the other"
    ]


def test_old_names_and_statistics_are_warnings() -> None:
    config = parse(
        router("helloInterval: 2", "addrCount: 7", "area: 0", "mode: standalone", "mode: standalone"), "f.conf"
    )
    assert config.router.hello_interval_seconds == 2
    assert [str(warning).removeprefix("f.conf:") for warning in config.warnings] == [
        "2: warning: router helloInterval: Attribute 'helloInterval' of entity 'router' "
        "has been deprecated. Use 'helloIntervalSeconds' instead",
        "3: warning: router addrCount: is reported by the router and cannot be set; remove it",
        "4: warning: router area: is reported by the router and cannot be set; remove it",
        "6: warning: router mode: is already set in line 5; this value counts, remove the other",
    ]


def test_no_listener_is_a_warning() -> None:
    assert told("router {\n}\n") == [
        "1: warning: there is no listener, so nobody can connect; add one, such as a listener with port: amqp"
    ]


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "none.conf", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(ConfigError, match=reason) as error:
            load(path)
        assert str(error.value).startswith(f"{path}: cannot be read (")
        assert str(error.value).endswith("; give a .conf, .json or .toml file that the router's user may read")


def test_file_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "latin.conf"
    path.write_bytes(b"router {\n id: caf\xe9\n}\n")
    with pytest.raises(ConfigError) as error:
        load(path)
    assert str(error.value) == f"{path}:2: byte 0xe9 is not UTF-8 text; save the file as UTF-8"


def test_maps_are_read_where_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long file with many vhosts that have groups costs so many vhosts: its rest is not copied for each."""
    read: list[tuple[str, int]] = []

    class Noted(JsonText):
        def __init__(self, text: str, position: int, **terms: Any) -> None:
            read.append((text, position))
            super().__init__(text, position, **terms)

    monkeypatch.setattr(conf_file, "JsonText", Noted)
    vhost = "vhost {\n hostname: h%d\n groups: {\n  g: {\n   users: *\n   sources: a\n  }\n }\n}\n"
    text, mistakes = "".join(vhost % i for i in range(1000)), []  # type: tuple[str, list[Mistake]]
    assert len(conf_file.parse(text, "f.conf", mistakes)) == len(read) == 1000
    assert not mistakes
    assert all(one is text and text.startswith("{\n  g:", at) for one, at in read)


def test_a_flow_log_needs_what_writes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """pyarrow is large and comes with the flow log only: one sentence says where it is to be had."""
    monkeypatch.setattr("routerd.config.rules.flow_log.find_spec", lambda name: None)
    (mistake,) = told(router() + "flowLog {\n directory: /flows\n}\n")
    assert "which is not installed: on Debian install routerd-flowlog, elsewhere give pip 'routerd[flowlog]'" in mistake
    assert told(router()) == []


def test_tracing_needs_what_sends_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("routerd.config.rules.tracing.find_spec", lambda name: None)
    (mistake,) = told(router() + "tracing {\n endpoint: http://a/\n}\n")
    assert "which is not installed: on Debian install routerd-tracing, elsewhere give pip 'routerd[tracing]'" in mistake


@pytest.mark.parametrize(
    "url",
    ["a:1", "ftp://a/", "http://", "http://a:x/", "http://[::/", "http://a:70000/", "http://a..b/", "http://.a/",
     f"http://{'a' * 64}/", "http://a/b c", "http://a/\u00e4", "http://a/?\u00e4"],
)  # fmt: skip
def test_spans_go_to_a_url(url: str) -> None:
    (mistake,) = told(router() + f"tracing {{\n endpoint: {url}\n}}\n")
    assert "is no URL of HTTP; give one such as http://127.0.0.1:4318/v1/traces" in mistake
    assert told(router() + "tracing {\n endpoint: https://[::1]:4318/v1/traces\n}\n") == []


def test_spans_go_to_nobody_by_name() -> None:
    """The password of a user would be in the log, and in no request."""
    (mistake,) = told(router() + "tracing {\n endpoint: https://user:secret@collector.example/v1/traces\n}\n")
    assert mistake.endswith("endpoint: names a user, and none is sent; remove what stands before the @")
    assert "secret" not in mistake
    assert told(router() + "tracing {\n endpoint: https://collector.example/v1/@traces\n}\n") == []


def test_a_section_without_its_end_contradicts_nobody() -> None:
    """What it would have had is not known, so its port is not the other's."""
    with pytest.raises(ConfigError) as refused:
        parse("listener {\n host: 127.0.0.1\nlistener {\n host: 127.0.0.1\n}\n", "router.conf")
    (told,) = [str(one) for one in refused.value.mistakes]
    assert "begins inside section 'listener'" in told
