"""qdstat and qdmanage as they come with qpid-dispatch 1.19: every view, and every operation."""

import json
from typing import Any

import pytest

from tests.support.clients.stock_tools import MISSING, StockTools
from tests.support.peer import Net
from tests.support.running import Configuration, RunningRouter

SECTIONS = """
address {
 prefix: wide
 distribution: multicast
 name: wide
}
linkRoute {
 prefix: away
 direction: in
 containerId: broker
}
autoLink {
 address: pulled
 direction: in
 containerId: broker
}
vhost {
 hostname: h
 groups: {"$default": {"users": "*", "remoteHosts": "*", "sources": "wide"}}
}
"""

# What a view must show.
VIEWS = {
    "-g": "Worker Threads",
    "-c": "no-security",
    "-l": "endpoint",
    "-l -v": "enabled",
    "-l --limit 1": "endpoint",
    "-n": "Router is Standalone",
    "-n -v": "Router is Standalone",
    "-e": "",
    "-a": "multicast",
    "-a -v": "in-proc",
    "-m": "worker-0_small_block",
    "-p": "Connections Processed",
    "--autolinks": "pulled",
    "--linkroutes": "linkBalanced",
    "--vhosts": "65535",
    "--vhostgroups": "remoteHosts",
    "--vhoststats": "connectionsApproved",
    "--log": "",
    "--log --limit 5": "",
    "-g --csv": '"Worker Threads","1"',
    "-l --csv": '"endpoint"',
    "-c --csv": '"no-security"',
    "-g --all-routers": "Worker Threads",
    "--all-entities": "Vhost Stats",
    "-g -v": "Worker Threads",
}  # fmt: skip


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    """One of each that the tools have a view for."""
    return Configuration(router="workers: 1", sections=SECTIONS)


@pytest.fixture(scope="module")
def tools(router: RunningRouter, tmp_path_factory: pytest.TempPathFactory) -> StockTools:
    """Where there are none, nothing is tested here."""
    found = StockTools.find(router.url, tmp_path_factory.mktemp("site"))
    if found is None:
        pytest.skip(MISSING)
    return found


@pytest.mark.parametrize("options", VIEWS)
def test_qdstat(tools: StockTools, net: Net, options: str) -> None:
    """Each view shows what there is, and complains about nothing."""
    peer = net.peer()
    peer.receiver("wide.one")
    peer.ready_sender("wide.one")
    done = tools.run("qdstat", *options.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert VIEWS[options] in done.stdout


def test_qdstat_of_another_router(router: RunningRouter, tools: StockTools) -> None:
    """By its id, also the one that is asked."""
    assert router.id in tools.run("qdstat", "-g", "-r", router.id).stdout


def manage(tools: StockTools, *arguments: str, stdin: str = "") -> Any:
    done = tools.run("qdmanage", *arguments, stdin=stdin)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout) if done.stdout.strip() else None


def test_qdmanage_about_the_agent(router: RunningRouter, tools: StockTools) -> None:
    """The operations that are not about an entity."""
    listener = "org.apache.qpid.dispatch.listener"
    assert listener in manage(tools, "get-types")
    assert list(manage(tools, "get-types", "--type", "listener")) == [listener]
    assert "port" in manage(tools, "get-attributes", "--type", "listener")[listener]
    assert "CREATE" in manage(tools, "get-operations", "--type", "listener")[listener]
    assert manage(tools, "get-annotations") == {}
    assert manage(tools, "get-mgmt-nodes") == []
    assert manage(tools, "get-schema")["prefix"] == "org.apache.qpid.dispatch"
    assert "listener" in manage(tools, "get-json-schema", "--indent", "2")["entityTypes"]
    assert manage(tools, "read", "--name", "self")["type"] == "org.amqp.management"
    everything = {row["type"] for row in manage(tools, "query", "type")}
    assert {listener, "org.apache.qpid.dispatch.router"} <= everything
    assert "org.apache.qpid.dispatch.router.link" not in everything  # of these there can be many: by --type
    (row,) = manage(tools, "query", "--type", "router", "id", "mode")
    assert row["id"] == router.id


def test_qdmanage_changes(tools: StockTools) -> None:
    """CREATE, READ, UPDATE and DELETE, from the command line and from standard input."""
    made = manage(tools, "create", "--type=address", "--name=late", "prefix=late", "distribution=closest")
    assert manage(tools, "read", "--type=address", "--name=late") == made
    manage(tools, "delete", "--type=address", "--name=late")
    made = manage(tools, "create", "--type=listener", "--name=more", "host=127.0.0.1", "port=0")
    manage(tools, "delete", "--type=listener", f"--identity={made['identity']}")
    groups = {"$default": {"users": "*", "remoteHosts": "*"}}
    vhost = json.dumps({"hostname": "new", "maxConnections": 3, "groups": groups})
    assert manage(tools, "create", "--type=vhost", "--stdin", stdin=vhost)["maxConnections"] == 3
    changed = manage(tools, "update", "--type=vhost", "--name=vhost/new", "maxConnections=4")
    assert changed["maxConnections"] == 4
    manage(tools, "delete", "--type=vhost", "--name=vhost/new")
    several = json.dumps([{"type": "linkRoute", "name": n, "prefix": n, "direction": "in"} for n in "xy"])
    manage(tools, "create", "--stdin", stdin=several)
    for name in "xy":
        manage(tools, "delete", "--type=linkRoute", f"--name={name}")
    assert manage(tools, "update", "--type=log", "--name=log/AGENT", "enable=info+")["enable"] == "info+"


def test_qdmanage_is_refused(tools: StockTools) -> None:
    """With status 1, and the router's own words."""
    for arguments, words in (
        (("create", "--type=address", "prefix=a", "pattern=b"), "cannot be specified"),
        (("create", "--type=listener", "port=nowhere"), "is not a port"),
        (("delete", "--type=listener", "--name=none"), "NotFoundStatus"),
        (("update", "--type=listener", "--name=none", "port=1"), "NotImplementedStatus"),
        (("query", "--type=none"), "BadRequestStatus"),
        (("read", "--type=router", "--name=x"), "ForbiddenStatus"),
    ):
        done = tools.run("qdmanage", *arguments)
        assert (done.returncode, words in done.stdout + done.stderr) == (1, True), done
    modules = {module for module, _, text, *_ in manage(tools, "get-log") if "refused" in text}
    assert "AGENT" in modules
