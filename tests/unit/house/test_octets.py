"""Each text of others, with octets that are no UTF-8, thousands of digits, nesting without end, and nothing.

An *entry* is where such a text becomes Python's. It may be used, or refused by an error that says so; what
else is raised would end a process, or be silence. The last test finds entries that nobody has listed.
"""

import hashlib
import os
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from proton import Message

from core.amqp import codec as wire
from core.management import codec
from core.management.request import Response
from core.rmr.active import snapshot as stash
from core.rmr.managers.envelope import ANNOTATION, EnvelopeError, opened
from core.rmr.managers.messages import refusal, requester, state, state_of
from core.rmr.managers.remembered import Remembered
from core.rmr.tables.decoding import DecodingError, lossless
from routerd.__main__ import main
from routerd.cli import restart
from routerd.cli.client import Client, ClientError
from routerd.cli.manage import attributes
from routerd.config import ConfigError, load
from routerd.config import parse as parse_configuration
from routerd.config.validity import expiry
from routerd.exporter.gate import Gate
from routerd.exporter.server import Connection, Server
from routerd.machine import systemd
from routerd.recorder import compacting
from routerd.source_routes import address as route_address
from routerd.translate import tables
from shm.contract.failures import failures
from shm.contract.numbers import whole
from shm.memory import segment
from shm.statistics import board
from tests.support.beds.agent import Bed

ROOT = Path(__file__).parents[3]
HOSTILE = {
    "octet": b"\xff",
    "surrogate": b"\xed\xa0\x80",
    "latin": b"K\xf6ln",
    "arabic-digit": "\u0661".encode(),
    "digits": b"9" * 5000,
    "negative": b"-" + b"9" * 5000,
    "fraction": b"9" * 5000 + b".5",
    "exponent": b"1e999999",
    "nothing": b"",
    "nul": b"\0",
    "escape": b"\x1b[2J\n",
    "arrays": b"[" * 100_000,
    "objects": b'{"a":' * 100_000,
    "escaped-surrogate": b'"\\udcff"',
}
CONFIGURATIONS = {
    ".conf": (
        "@", "router {\n id: @\n workers: @\n coreCpu: @\n workerCpus: @\n}\n", "@ {\n @: @\n}\n",
        "listener {\n host: @\n port: @\n maxFrameSize: @\n}\n", "address {\n prefix: @\n priority: @\n}\n",
        "routeTable {\n name: @\n seed: @\n manager: @\n pushTo: @\n pushFrom: @\n requestInterval: @\n}\n",
        "vhost {\n hostname: @\n groups: {\n a: {\n users: @\n remoteHosts: @\n sources: @\n}\n}\n}\n",
        "flowLog {\n directory: @\n retentionAge: @\n retentionSize: @\n}\n", "sslProfile {\n name: @\n}\n",
        "log {\n module: @\n enable: @\n outputFile: @\n}\n", "routeWorker {\n address: @\n kind: @\n}\n",
        "connector {\n host: @\n port: @\n failoverUrls: @\n cost: @\n}\n",
    ),
    ".json": (
        "@", '[["router", {"id": "@"}]]', '[["router", {"workers": @}]]', '[["listener", {"port": "@"}]]',
        '[["@", {"@": @}]]',
    ),
    ".toml": ("@", '[router]\nid = "@"\n', "[router]\nworkers = @\n", '["@"]\na = 1\n'),
}  # fmt: skip
VARIABLES = ("RMR_SEED_RT", "RMR_RTG_SVC", "RMR_STASH_RT", "RMR_RTREQ_FREQ", "RMR_SRC_ID")

Entry = Callable[[bytes, Path], None]


def configuration(form: str) -> Entry:
    def read(octets: bytes, folder: Path) -> None:
        for number, body in enumerate(CONFIGURATIONS[form]):
            file = folder / f"{number}{form}"
            file.write_bytes(body.encode().replace(b"@", octets))
            try:
                load(file)
            except ConfigError as error:
                str(error).encode()

    return read


def environment_of_tables(octets: bytes, _: Path) -> None:
    config = parse_configuration("routeTable {\n name: a\n}\n", "x.conf")
    for name in VARIABLES:
        found = tables.tables(config, {name: os.fsdecode(octets)})
        msgspec.msgpack.encode(found)
        assert all(len(one.source.encode()) <= 63 for one in found)


def environment_of_systemd(octets: bytes, _: Path) -> None:
    text = os.fsdecode(octets)
    for name in ("LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID"):
        systemd.passed_sockets({"LISTEN_PID": "1", "LISTEN_FDS": "0", name: text}, 1)
    systemd.Manager({"WATCHDOG_PID": "1", "WATCHDOG_USEC": text}, 1)


def arguments(octets: bytes, _: Path) -> None:
    """As the shell gives them: what AMQP cannot hold is refused before it is sent."""
    client = Client.__new__(Client)
    reply = SimpleNamespace(properties={"statusCode": 200}, body={})
    client._client = SimpleNamespace(call=lambda message: message.encode() and reply)  # type: ignore[assignment]  # as much of it as is used
    client._place = SimpleNamespace(shown="here")  # type: ignore[assignment]  # as much of it as is used
    text = os.fsdecode(octets)
    for option in ("--bus", "--router", "--sasl-username"):
        outcome = CliRunner().invoke(main, ["stat", option, text[:2000], "--bus", f"{text[:2000]}@127.0.0.1:1"])
        assert isinstance(outcome.exception, SystemExit), outcome.exception
    given = attributes((f"a={text}", f"{text}=1"))
    for operation, body in (("UPDATE", given), ("READ", {}), (text, {})):
        try:
            client.call(operation, body, name=text)
        except ClientError as error:
            str(error).encode()


def a_management_request(octets: bytes, _: Path) -> None:
    """Raw octets where a string should be, and such values as text."""
    mark = "@" * len(octets)
    properties = {"operation": mark, "type": mark, "offset": mark, mark: 1}
    message = Message(reply_to=f"r{mark}", properties=properties, body={mark: mark})
    content = bytes(message.encode())
    for one in (content, content.replace(mark.encode(), octets) if octets else content):
        try:
            codec.decode(one)
        except codec.NoReplyError as error:
            str(error).encode()


def an_address(octets: bytes, folder: Path) -> None:
    """A message's `to`: whoever asks for all addresses has an answer, and the board shows them."""
    segments = segment.create(f"/routerd-octets-{os.getpid()}-{os.urandom(4).hex()}", 1, 1)
    try:
        bed = Bed(segments)
        bed.core.addresses.learn(octets[:1000])
        bed.core.step(5)
        codec.encode(codec.Envelope("x"), Response(200, bed.query("router.address")))
        board.short(lossless(octets)).encode()
    finally:
        segments.unlink()


def a_value_between_routers(octets: bytes, _: Path) -> None:
    for code in (0xA0, 0xA1, 0xA3, 0xB0, 0xB1, 0xB3):
        size = len(octets).to_bytes(4, "big") if code >= 0xB0 else bytes((len(octets) & 255,))
        try:
            wire.Parser(bytes((code,)) + size + octets).value()
        except wire.WireError as error:
            str(error).encode()


def rmr_words(octets: bytes, _: Path) -> None:
    state_of(b"ERR t " + octets)
    state(octets, lossless(octets), bad=True)
    told = refusal(b"newrt|start|" + octets, "no")
    (told.table_id + told.reason).encode()
    header = bytes(76) + octets[:64].ljust(120, b"\0") + (216).to_bytes(4, "big") + bytes(16)  # with a source
    for read in (requester, enveloped):
        for given in (octets, header):
            try:
                read(given)
            except (DecodingError, EnvelopeError) as error:
                str(error).encode()


def enveloped(header: bytes) -> None:
    annotations = wire.mapping([(wire.symbol(ANNOTATION), wire.binary(header))])
    heard = opened(wire.section(0x72, annotations), "", "")
    (heard.source + heard.fault).encode()


def a_source_route(octets: bytes, _: Path) -> None:
    try:
        str(route_address.parse_address(lossless(octets))).encode()
    except ValueError as error:
        str(error).encode()


def http(octets: bytes, _: Path) -> None:
    """In the path, the query and each header; one client at a time."""
    line = octets.replace(b"\n", b"").replace(b"\r", b"")[:4000]
    door: Any = SimpleNamespace(site=lambda _: fail(), gate=Gate([], []), workers=None, tls=None)
    for head in (b"GET /%b HTTP/1.0", b"%b / HTTP/1.0", b"GET /?a=%b HTTP/%b", b"GET / HTTP/1.1\r\nHost: %b",
                 b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: %b\r\n%b: x",
                 b"GET / HTTP/1.1\r\nHost: 127.0.0.1:%b\r\nContent-Length: %b"):  # fmt: skip
        here, there = socket.socketpair()
        with here, there:
            server = Server()
            here.setblocking(False)
            connection = Connection(here, "peer:1", door, 0.0)
            server._connections[connection] = server._converse(connection)
            there.sendall(head.replace(b"%b", line) + b"\r\n\r\n")
            before = failures.number
            server._serve(connection)
            server._answer_all()
            assert failures.number == before
            server.close()


def fail() -> Any:
    from routerd.exporter.server import Answer  # noqa: PLC0415  where it is used

    return Answer(b"")


def a_snapshot(octets: bytes, folder: Path) -> None:
    """With the right digest, too: whoever can write the file can make one."""
    file = folder / "stash"
    for body in (octets, b"# routerd stash 1 " + octets + b"\n"):
        digest = hashlib.blake2b(body, digest_size=16).hexdigest().encode()
        file.write_bytes(body + b"# end " + digest + b"\n")
        try:
            stash.read(file)
        except stash.SnapshotError as error:
            str(error).encode()


def applications(octets: bytes, folder: Path) -> None:
    file = folder / "applications"
    for content in (octets, b'[["a:1","' + octets + b'"]]', b'[["' + octets + b'","a:1"]]'):
        file.write_bytes(content)
        msgspec.json.encode(Remembered(str(file)).load())


def a_process_id(octets: bytes, folder: Path) -> None:
    file = folder / "pid"
    file.write_bytes(octets)
    try:
        restart._pid_in(file)
    except restart.RestartError as error:
        str(error).encode()


def a_certificate(octets: bytes, _: Path) -> None:
    for text in (octets, b"-----BEGIN CERTIFICATE-----\n" + octets + b"\n-----END CERTIFICATE-----\n"):
        try:
            expiry(text.decode("ascii", "replace"))
        except ValueError as error:
            str(error).encode()


def a_footer(octets: bytes, _: Path) -> None:
    compacting._number(octets)
    whole(octets)
    whole(lossless(octets))


ENTRIES: dict[str, tuple[Entry, str]] = {
    "configuration .conf": (configuration(".conf"), "routerd/config/"),
    "configuration .json": (configuration(".json"), "routerd/config/"),
    "configuration .toml": (configuration(".toml"), "routerd/config/"),
    "environment: tables": (environment_of_tables, "routerd/translate/tables.py"),
    "environment: systemd": (environment_of_systemd, "routerd/machine/systemd.py"),
    "command line": (arguments, "routerd/cli/manage.py routerd/cli/client.py routerd/__main__.py"),
    "management request": (a_management_request, "core/management/"),
    "address": (
        an_address,
        "core/addresses/addresses.py core/exchanges/keys.py shm/statistics/board.py core/flow_log/names.py",
    ),
    "between routers": (a_value_between_routers, "core/interior/ core/edge/ core/amqp/"),
    "RMR": (rmr_words, "core/rmr/"),
    "source route": (a_source_route, "routerd/source_routes/"),
    "HTTP": (http, "routerd/exporter/"),
    "snapshot": (a_snapshot, "core/rmr/active/snapshot.py"),
    "applications": (applications, "core/rmr/managers/remembered.py"),
    "process id": (a_process_id, "routerd/cli/restart.py"),
    "certificate": (a_certificate, "routerd/supervise/certificates.py"),
    "footer": (a_footer, "routerd/recorder/ shm/contract/numbers.py"),
}


@pytest.mark.parametrize("what", HOSTILE)
@pytest.mark.parametrize("entry", ENTRIES)
def test_an_entry_takes_any_octets_or_refuses_them(entry: str, what: str, tmp_path: Path) -> None:
    ENTRIES[entry][0](HOSTILE[what], tmp_path)


# ---- entries that nobody has listed ----

# Where octets or digits become Python's, and what proves that any may come, or who alone writes them.
ELSEWHERE = {
    "core/forwarder/turns/flight.pxi": "texts of its own C code",
    "routerd/supervise/flight.py": "the time in names that the supervisor gave its files",
    "shm/memory/flight.py": "the head of a ring in shared memory, as numbers",
    "routerd/replay/commands.py": "what its own child wrote, with other octets replaced",
    "routerd/replay/recording.py": "any file (fuzz target recording)",
    "routerd/replay/run.py": "the same",
    "routerd/replay/told.py": "the same",
    "core/links/administration.py": "a message's `to`, decoded without loss as in addresses.py",
    "shm/contract/hosts.py": "asks whether it is an address",
    "shm/contract/peer_address.py": "the host of a connector, which it gave OpenSSL itself",
    "core/exchanges/exchanges.py": "encodes what was decoded without loss",
    "core/interior/network_adapter.py": "the same",
    "core/links/streams.py": "the same",
    "core/links/terminus.py": "the same",
    "core/forwarder/forward.pyx": "texts of its own C code",
    "core/process/router.py": "msgpack of workers; what makes no sense is dropped (process/test_control)",
    "shm/native.pyx": "texts of its own C code",
    "shm/native_flow.pxi": "texts of its own C code",
    "shm/memory/journal.py": "JSON of its own writer",
    "shm/contract/scope_pattern.py": "what RE2 says of a pattern of the configuration (workers/test_scopes)",
    "shm/contract/text.py": "encodes what may be anything, with escapes (test_text)",
    "shm/memory/observer.py": "msgpack of the core's own board",
    "shm/contract/sections.py": "a number that the engine has decoded",
    "shm/memory/placement.py": "numbers of the kernel",
    "workers/control/cyrus.py": "names of clients: one that is no text logs nobody in (workers/test_cyrus)",
    "workers/control/handler.py": "msgpack of the core; what makes no sense is dropped (test_handler)",
    "workers/control/logins.py": "an address of the socket's own",
    "workers/control/lookup.py": "asks whether it is an address",
    "workers/control/message_log.py": "any AMQP values (workers/test_message_log)",
    "workers/control/policy.py": "addresses that the configuration has checked",
    "workers/rmr/connections.py": "encodes what the configuration has checked",
    "workers/rmr/rmr.pxi": "encodes what the configuration has checked",
    "workers/source_routes/table.py": "encodes what the configuration has checked",
    "workers/source_routes/steps.pyx": "texts of its own C code",
    "workers/source_routes/senders.py": "targets, without loss (workers/test_senders)",
    "workers/control/tls.py": "a file of the configuration's (test_tls)",
    "workers/amqp/values.pxi": "texts that lane/text.c has checked, others with escapes (conformance/test_texts)",
    "routerd/machine/allowance.py": "numbers of the kernel",
    "routerd/machine/proctitle.py": "numbers of the kernel",
    "routerd/supervise/children.py": "a truth as a number",
    "routerd/supervise/memory.py": "a truth as a number",
    "routerd/translate/routing.py": "a truth as a number",
    "routerd/supervise/channel.py": "msgpack of its own processes",
    "routerd/cli/route_trace.py": "of a message that the command line asked for; proton checks its text",
    "routerd/log/log.py": "encodes what may be anything, with escapes (test_log)",
    "routerd/process.py": "arguments of its own supervisor",
    "routerd/machine/pinning.py": "numbers of the kernel",
    "routerd/cli/stat.py": "of the router's answer",
    "routerd/cli/views.py": "the same",
    "routerd/cli/figures.py": "the same",
    "routerd/cli/processes.py": "the same",
    "routerd/cli/cli_options.py": "nineteen digits at most (test_first_messages)",
    "routerd/cli/connection_options.py": "a place in its own memory",
    "routerd/cli/messages.py": "bodies that the command line received, with escapes (test_first_messages)",
    "routerd/cli/printed.py": "its own ASCII",
    "routerd/machine/checkup.py": "numbers of the kernel",
    "routerd/cli/table_options.py": "decoded without loss (core/rmr/tables/test_decoding)",
}
BECOMES = re.compile(
    r"\.decode\(|json\.loads|raw_decode|Decoder\(|(?<![\w.])int\((?!time|1e9)[a-z_]|(?<![\w.])float\([a-z_]|surrogateescape"
    r"|LOSSLESS|fromhex|b64decode|fromisoformat|ip_address\(|ip_network\(|tomllib\.|literal_eval|PyUnicode_Decode"
)


def found() -> Iterator[str]:
    """Files of the router in which a text of others may become Python's."""
    for folder in ("core", "shm", "workers", "routerd"):
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix in (".py", ".pyx", ".pxi") and BECOMES.search(file.read_text()):
                yield str(file.relative_to(ROOT))


def test_every_place_where_octets_become_text_is_tried_or_says_why_not() -> None:
    """Whoever decodes something new adds an entry above, or says in ELSEWHERE who alone writes it."""
    listed = tuple(place for _, places in ENTRIES.values() for place in places.split())
    new = [file for file in found() if file not in ELSEWHERE and not file.startswith(listed)]
    assert not new, f"add an entry to {Path(__file__).name}"
    assert not ELSEWHERE.keys() - set(found()), "these decode nothing any more"
