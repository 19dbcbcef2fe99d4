"""`routerd route explain` and the workers in a configuration: files in, sentences and statuses out."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from routerd.__main__ import main
from routerd.config import ConfigError, parse
from routerd.source_routes.address import parse_address
from routerd.translate.identities import Identities
from routerd.translate.management import management
from routerd.translate.source_routes import source_routes
from shm.contract.source_routes import RouteWorkerSetup, SourceRoutesSetup, Stop

KINDS = {
    "forward": "",
    "static": "route: R",
    "proxy": "route: R\ninner: W.in",
    "extend": "route: R\nmarker: yes",
    "collapse": "stripCount: 2",
    "transform": "use: package.module:function",
    "payload-wrap": "route: U",
    "payload-unwrap": "trace: yes\ntraceAs: V",
    "wrap": "route: U\nformat: bare\nmetadata: a, b\nreturnRoute: s",
    "unwrap": "metadata: merge",
    "tee": "route: audit",
    "discovery": "route: T=>F\ninner: W.in\nmode: strip\nkeepScopes: 1,2\nscopePattern: ^([a-z])",
}


def section(kind: str, rest: str = "", address: str = "W", name: str = "routeWorker") -> str:
    return f"{name} {{\nkind: {kind}\naddress: {address}\n{rest}\n}}\n"


def router(name: str, *sections: str) -> str:
    return f"router {{\nid: {name}\n}}\nlistener {{\nport: 0\n}}\n{''.join(sections)}"


def stop(text: str) -> Stop:
    address = parse_address(text)
    return Stop(address.type, address.value, text)


def told(text: str) -> str:
    with pytest.raises(ConfigError) as refused:
        parse(text, "f.conf")
    return "\n".join(str(mistake) for mistake in refused.value.mistakes if not mistake.warning)


def setup_of(text: str, file: str = "f.conf") -> SourceRoutesSetup:
    return source_routes(parse(text, file), Identities())


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_becomes_a_worker(kind: str) -> None:
    config = parse(router("A", section(kind, KINDS[kind])), "f.conf")
    (worker,) = source_routes(config, Identities()).workers
    assert (worker.kind, worker.address.text, worker.identity) == (kind, "W", "routeWorker/W")
    assert not config.warnings


def test_what_is_configured_is_what_the_worker_has() -> None:
    text = router(
        "A",
        *(section(kind, KINDS[kind], f"{n}#{kind}") for n, kind in enumerate(KINDS) if kind != "proxy"),
        "sourceRoutes {\nhops: 5\nnesting: 2\nlocalKeys: here\nsealedKeys: s,t\n}\n",
    )
    setup = setup_of(text)
    found = {worker.kind: worker for worker in setup.workers}
    assert found["wrap"] == RouteWorkerSetup(
        "routeWorker/8#wrap", "wrap", stop("8#wrap"), route=[stop("U")], returning=[stop("s")], form="bare",
        metadata="keys", keys=["a", "b"],
    )  # fmt: skip
    discovery = found["discovery"]
    assert (discovery.strip, discovery.scopes, discovery.pattern) == ("scopes", ["1", "2"], "^([a-z])")
    assert (found["extend"].traced, found["extend"].marks) == (stop("3#extend"), True)
    assert (found["collapse"].strip, found["collapse"].strip_count) == ("count", 2)
    assert found["payload-unwrap"].traced == stop("V")
    assert found["forward"].traced is None
    assert (found["unwrap"].metadata, found["tee"].metadata) == ("merge", "hide")
    assert (setup.hops, setup.nesting, setup.onward) == (5, 2, 32)
    assert setup.classes == {"here": "local", "s": "sealed", "t": "sealed", "trace": "append"}


@pytest.mark.parametrize(
    ("text", "mistakes"),
    [
        (section("hop"), "f.conf:2: routeWorker kind: 'hop' is not allowed; give one of collapse"),
        (section("static"), "f.conf:1: routeWorker: kind static needs route; add it"),
        (section("proxy", "route: R"), "needs inner"),
        (section("forward", "route: R"), "route: has no effect for kind forward, only for static"),
        (section("static", "route: R\ntrace: yes"), "trace: has no effect for kind static"),
        (section("forward", "traceAs: G"), "traceAs: has no effect without tracing; set trace: yes, too"),
        (section("collapse"), "give one of stripCount, keepScopes, marker"),
        (section("collapse", "stripCount: 1\nmarker: yes"), "give one of stripCount, keepScopes, marker"),
        (section("discovery", "route: T\ninner: i\nmarker: yes"), "marker: has no effect in mode wrap"),
        (section("static", "route: A=>"), "route: address '' has no name; give addresses such as T13=>F3"),
        (section("forward", address="300#x"), "'300#x' has a type that is no number from 0 to 255"),
        (section("forward", address="1#2#x"), "'1#2#x' has more than one '#'; give a name or TYPE#NAME"),
        (section("transform", "use: thing"), "use: 'thing' is not a function; give module:function"),
        (section("collapse", "keepScopes: 1\nscopePattern: ("), "is not a regular expression of RE2: missing )"),
        (section("collapse", "keepScopes: 1\nscopePattern: a"), "has 0 groups; give one with one group"),
        (section("collapse", "keepScopes: 1\nscopePattern: (a)(?=b)"), "invalid perl operator: (?="),
        (section("collapse", "keepScopes: 1\nscopePattern: (a)\\1"), "without lookaround and backreferences"),
        (section("forward", "allow: A1"), "allow: 'A1' is not a source; give local, or one of worker, user"),
        (section("forward", "sendTo: 999#x"), "sendTo: address '999#x' has a type"),
        (section("unwrap", "metadata: copy"), "metadata: 'copy' does not fit; give restore or merge"),
        (section("discovery", "route: T\nuplinks: sky"), "there is no connector named 'sky'"),
        (section("forward") + section("forward"), "f.conf:8: routeWorker address: 'W' is of"),
        (section("proxy", "route: R\ninner: W"), "inner: 'W' is the worker's own; give another"),
        ("sourceRoutes {\nlocalKeys: trace\n}\n", "'trace' is in appendKeys, too; give it one class"),
        ("sourceRoutes {\nhops: 0\n}\n", "hops: 0 is out of range; give a whole number from 1 to 255"),
    ],
)
def test_mistakes_are_told_with_their_line(text: str, mistakes: str) -> None:
    assert mistakes in told(text)


def test_a_discovery_worker_without_a_way_in_is_a_warning() -> None:
    config = parse(router("A", section("discovery", "route: T")), "f.conf")
    assert "has neither inner nor uplinks" in "\n".join(map(str, config.warnings))


def test_there_may_be_256_sources() -> None:
    names = ",".join(f"user:{n}" for n in range(256))
    parse(router("A", section("forward", f"allow: {names}")), "f.conf")
    with pytest.raises(ConfigError, match="more than 256 sources"):
        parse(router("A", section("forward", f"allow: {names},user:x")), "f.conf")


@pytest.mark.parametrize("name", ["routeWorker", "route-worker", "router.config.routeWorker"])
def test_a_hash_belongs_to_an_address(name: str) -> None:
    (worker,) = setup_of(router("A", section("static", "route: 64#R=>Q # here", "64#W", name))).workers
    assert (worker.address, worker.route) == (stop("64#W"), [stop("64#R"), stop("Q")])


def test_json_and_toml_have_workers_too() -> None:
    worker = '["routeWorker", {"kind": "static", "address": "W", "route": "R"}]'
    for text, file in (
        (f'[["listener", {{"port": 0}}], {worker}]', "f.json"),
        ('[[listener]]\nport = 0\n[[routeWorker]]\nkind = "static"\naddress = "W"\nroute = "R"\n', "f.toml"),
    ):
        assert [one.address.text for one in setup_of(text, file).workers] == ["W"]


IN = "route: {}\ninner: {}.in\ninnerAllow: uplink:{}"
NODES = {
    "n1": router("node1", section("discovery", IN.format("T13=>F3", "D1", "node4"), "D1")),
    "n2": router("node2", section("discovery", IN.format("T24=>F4", "D2", "node3"), "D2")),
    "n3": router(
        "node3",
        section("forward", "trace: yes\ntraceAs: T23\nallow: uplink:node1", "T13"),
        section("static", "route: D2.in\nallow: local", "F3"),
    ),
    "n4": router(
        "node4",
        section("forward", "trace: yes\ntraceAs: T14\nallow: uplink:node2", "T24"),
        section("static", "route: D1.in\nallow: local", "F4"),
    ),
}


def explain(folder: Path, files: dict[str, str], *arguments: str) -> Result:
    given = []
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
        given += ["--config", str(folder / name)]
    return CliRunner().invoke(main, ["route", "explain", *given, *arguments], env={"COLUMNS": "200"})


def rows(result: Result) -> dict[str, list[Any]]:
    return {
        name: [(s["at"], s["router"], " ".join(s["onward"]), " ".join(s["return"]), s["state"]) for s in steps]
        for name, steps in json.loads(result.stdout).items()
    }


def test_a_message_and_its_reply_through_four_routers(tmp_path: Path) -> None:
    """The specification's discovery workers, wrapping: A1 never sees the cloud in between."""
    result = explain(tmp_path, NODES, "D1=>B2", "--return", "A1", "--reply", "--json")
    assert result.exit_code == 0
    assert rows(result) == {
        "message": [
            ("", "", "D1 B2", "A1", "complete"),
            ("D1", "node1", "T13 F3", "", "none"),
            ("T13", "node3", "F3", "T23", "none"),
            ("F3", "node3", "D2.in", "T23", "none"),
            ("D2.in", "node2", "B2", "D2 A1", "complete"),
            ("B2", "", "B2", "D2 A1", "complete"),
        ],
        "reply": [
            ("", "", "D2 A1", "B2", "complete"),
            ("D2", "node2", "T24 F4", "", "none"),
            ("T24", "node4", "F4", "T14", "none"),
            ("F4", "node4", "D1.in", "T14", "none"),
            ("D1.in", "node1", "A1", "D1 B2", "complete"),
            ("A1", "", "A1", "D1 B2", "complete"),
        ],
    }


def test_the_table_says_what_each_worker_does(tmp_path: Path) -> None:
    result = explain(tmp_path, NODES, "D1=>B2", "--return", "A1")
    for words in ("wraps B2 / A1", "forwards, traces T23", "replaces itself by D2.in", "unwraps, traces D2"):
        assert words in result.output


def test_a_cloud_that_traces_without_wrapping(tmp_path: Path) -> None:
    strip = "mode: strip\nmarker: yes"
    files = {name: text.replace("route: T", f"{strip}\nroute: T") for name, text in NODES.items()}
    result = explain(tmp_path, files, "D1=>B2", "--return", "A1", "--reply", "--json")
    assert rows(result)["message"][1] == ("D1", "node1", "T13 F3 B2", "_scope A1", "complete")
    assert rows(result)["message"][-1] == ("B2", "", "B2", "D2 A1", "complete")
    assert rows(result)["reply"][-1] == ("A1", "", "A1", "D1 B2", "complete")


def test_without_a_configuration_it_is_delivered_at_its_first_address(tmp_path: Path) -> None:
    result = explain(tmp_path, {}, "B2")
    assert result.exit_code == 0
    assert "delivered" in result.output
    longer = explain(tmp_path, {}, "D1=>B2")
    assert "with the rest of its route" in longer.output


@pytest.mark.parametrize(
    ("arguments", "worker", "label", "why"),
    [
        (["W=>W=>x"], section("static", "route: W"), "hops", "W | has passed 64 workers; 64 are allowed"),
        (["W"], section("forward"), "no-next", "W | the onward route ends at a worker"),
        (["W=>x"], section("forward", "allow: user:bob"), "access", "W | local may not send here"),
        (
            ["W=>x", "--from", "uplink:cloud", "--return", "A1"],
            section("forward", "allow: worker:A1"),
            "access",
            "W | uplink:cloud may not send here; allowed: worker:A1",
        ),
        (
            ["V=>W=>x"],
            section("forward", "sendTo: B", "V") + section("forward"),
            "access",
            "W | V may not send here, only to: B",
        ),
        (["W"], section("unwrap"), "bad-encoding", "W | does not begin with message-annotations"),
        ([""], section("forward"), "empty-route", "| the onward route is empty"),
        (["=>".join("a" * 33)], section("forward"), "onward", "a | the onward route has 33 addresses"),
    ],
)
def test_who_would_refuse_and_why(tmp_path: Path, arguments: list[str], worker: str, label: str, why: str) -> None:
    """A forged return route, such as A1's by an uplink, opens nothing."""
    result = explain(tmp_path, {"f": router("A", worker)}, *arguments, "--json")
    assert result.exit_code == 1
    last = json.loads(result.stdout)["message"][-1]
    at, _, words = why.partition("| ")
    assert (last["refused"], last["at"]) == (label, at.strip())
    assert words in last["what"]
    assert "refused, amqp:" in explain(tmp_path, {"f": router("A", worker)}, *arguments).output


def test_where_a_worker_may_send_to_holds_for_other_routers(tmp_path: Path) -> None:
    files = {
        "a": router("A", section("forward", "sendTo: B", "V")),
        "b": router("B", section("forward", "allow: uplink:A")),
    }
    result = explain(tmp_path, files, "V=>W=>x", "--json")
    assert json.loads(result.stdout)["message"][-1]["refused"] == "access"
    assert "V may not send here, only to: B" in result.stdout


def test_a_route_longer_than_any_limit(tmp_path: Path) -> None:
    result = explain(tmp_path, {}, "=>".join("a" * 600), "--json")
    assert "the onward route has 600 addresses; 32 are allowed" in result.stdout


def test_a_reply_that_cannot_be(tmp_path: Path) -> None:
    gate = section("static", "route: x\nscopeChange: yes")
    result = explain(tmp_path, {"f": router("A", gate)}, "W", "--reply", "--json")
    assert result.exit_code == 1
    (reply,) = json.loads(result.stdout)["reply"]
    assert (reply["refused"], reply["state"]) == ("unusable-return", "partial")
    none = explain(tmp_path, {}, "x", "--return", "", "--reply", "--json")
    assert "there is no return route" in json.loads(none.stdout)["reply"][0]["what"]


def test_copies_have_rows_of_their_own(tmp_path: Path) -> None:
    result = explain(tmp_path, {"f": router("A", section("tee", "route: audit"))}, "W=>x", "--json")
    steps = json.loads(result.stdout)["message"]
    assert [(s["at"], s["copy"]) for s in steps] == [("", 0), ("W", 0), ("x", 0), ("audit", 1)]


def test_very_many_steps_are_not_all_shown(tmp_path: Path) -> None:
    tee = section("tee", "route: W=>W=>W=>W=>W=>W=>x")
    result = explain(tmp_path, {"f": router("A", tee)}, "W=>W=>W=>W=>x", "--json")
    steps = json.loads(result.stdout)["message"]
    assert len(steps) <= 1002


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["A=>"], "Invalid value for ONWARD: address '' has no name; give addresses such as D1=>B2"),
        (["A", "--return", "1#"], "Invalid value for --return"),
        (["A", "--from", "me"], "'me' is no source; give user:ID, link:TARGET"),
    ],
)
def test_what_cannot_be_explained(tmp_path: Path, arguments: list[str], why: str) -> None:
    result = explain(tmp_path, {}, *arguments)
    assert result.exit_code == 2
    assert why in " ".join(result.output.split())


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    broken = explain(tmp_path, {"f": section("hop")}, "W")
    assert (broken.exit_code, "f:2: routeWorker kind" in broken.output) == (1, True)
    twice = explain(tmp_path, {n: router(n, section("forward")) for n in "ab"}, "W=>x")
    assert twice.exit_code == 1
    assert "there is a worker W, and one in" in " ".join(twice.output.split())


def test_management_serves_them(tmp_path: Path) -> None:
    """They are read like every other entity, each under a name of its own."""
    found = management(parse(router("A", section("forward"), section("forward", address="V")), "f.conf"))
    served = found.entities["router.config.routeWorker"]
    assert [(one["address"], one["identity"]) for one in served] == [("W", "routeWorker/W"), ("V", "routeWorker/V")]


def test_the_first_route_of_the_guide(tmp_path: Path) -> None:
    """What it shows is what comes of the configuration that stands above it."""
    page = (Path(__file__).parents[4] / "docs" / "source-routes.md").read_text()
    _, configuration, _, session, _ = page.partition("## A first route")[2].split("```", 4)
    result = explain(tmp_path, {"first.conf": configuration.partition("\n")[2]}, "D1=>B2", "--return", "A1")
    words = [line.split() for line in session.partition("\n\n")[2].splitlines() if "─" not in line]
    assert result.exit_code == 0
    assert [line.split() for line in result.output.splitlines() if line.split() in words] == words
