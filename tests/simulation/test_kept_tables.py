"""What is in use of a route table is there again in the next core, and in the router's next life."""

import logging
import shutil
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.rmr.active import snapshot as stash
from core.rmr.active.snapshot import Keeper, Kept, SnapshotError, Use
from core.rmr.tables.parser import Parser
from core.rmr.tables.state import in_force
from core.rmr.tables.table import MeidMap, Table
from shm.contract.control import SetTables
from tests.model.table_site import TableSite, got

SEED = "newrt|start|seed\nmse|1000|-1|seed:1\nnewrt|end|1\n"
PUSHED = "newrt|start|pushed\nmse|1000|-1|pushed:1\nmse|1000,a:1|7|%meid\nnewrt|end|2\n"
UPDATE = "updatert|start|more\nmse|1001|-1|more:1\ndel|1000,b:1|-1\nupdatert|end|2\n"
MAP = "meid_map|start|m\nmme_ar|owner:1|x y\nmeid_map|end|1\n"
(TABLE,) = [one for one in Parser().feed(PUSHED) if isinstance(one, Table)]
NUMBERS = st.integers(-(1 << 31), (1 << 31) - 1)
ENDPOINTS = st.from_regex(r"[a-z]{1,8}:[1-9][0-9]{0,3}", fullmatch=True)
GROUPS = st.lists(st.lists(ENDPOINTS, min_size=1, max_size=4), min_size=1, max_size=4)
ENTRIES = st.lists(st.tuples(NUMBERS, st.lists(ENDPOINTS, max_size=2, unique=True), NUMBERS, GROUPS), max_size=8)


@pytest.fixture
def seed(tmp_path: Path) -> Path:
    path = tmp_path / "seed.rt"
    path.write_text(SEED)
    return path


def site(tmp_path: Path, seed: Path, stamp: int = 1) -> TableSite:
    """A life of the router. ``stamp``: of the seed."""
    return TableSite(seed=str(seed), stamp=(stamp,), stash=str(tmp_path / "kept"))


def in_use(one: TableSite) -> tuple[list[str], dict[str, str]]:
    """Entries and owners."""
    assert one.active.table is not None
    table = one.active.table.value
    owners = {} if one.active.owners is None else one.active.owners.value
    return [str(table.row(at)) for at in in_force(table)], owners


def test_a_file_of_somebody_else_is_neither_replaced_nor_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`stash` may name one by mistake, or in a request; nor is one with the name of a half-written one."""
    keeper = Keeper()
    use = Use(Kept("t"), TABLE, {})
    for name in ("users.sasldb", "kept.new"):
        foreign = tmp_path / name
        foreign.write_bytes(b"somebody else's")
        path = str(tmp_path / name.removesuffix(".new"))
        keeper.put(path, use)
        keeper.flush()
        keeper.put(path, None)
        assert foreign.read_bytes() == b"somebody else's"
        assert f"cannot be kept in {path}: the file is no snapshot and stays" in caplog.text
    assert sorted(one.name for one in tmp_path.iterdir()) == ["kept.new", "users.sasldb"]


def test_what_was_pushed_wins_over_the_seed(tmp_path: Path, seed: Path) -> None:
    """Table, update and map; and messages go where they went."""
    first = site(tmp_path, seed)
    for text in (PUSHED, UPDATE, MAP):
        assert first.table(text, "manager rm:1")[0].ok
    second = site(tmp_path, seed)
    assert in_use(second) == in_use(first)
    history = second.active.history
    assert (history.table_id, history.map_id) == ("more", "m")
    assert history.origin.endswith("which had it from manager rm:1")
    assert history.origin.startswith(f"stash {tmp_path / 'kept'}")
    assert history.installed == first.active.history.installed
    receiver, link = second.receiver("more:1"), second.sender()
    second.give(link, 1, 1001, 5)
    assert got(receiver) == [1]


def test_a_seed_in_use_is_kept_until_it_changes(tmp_path: Path, seed: Path) -> None:
    """A core that starts again does not read a file that somebody is at; the router's next start does."""
    site(tmp_path, seed)
    seed.write_text("not yet wri")
    again = site(tmp_path, seed)
    assert in_use(again)[0] == ["mse|1000|-1|seed:1"]
    assert again.active.history.origin == str(seed)
    seed.write_text(SEED.replace("seed:1", "other:1"))
    assert in_use(site(tmp_path, seed, 2))[0] == ["mse|1000|-1|other:1"]


def test_a_changed_seed_takes_the_place_of_what_was_pushed_when_it_is_read(tmp_path: Path, seed: Path) -> None:
    """A reload names it: from then on it is what the next core begins with."""
    first = site(tmp_path, seed)
    first.table(PUSHED)
    first.core.configure(SetTables([msgspec.structs.replace(first.setup, stamp=(2,))]))
    first.settle_all()
    assert in_use(first)[0] == ["mse|1000|-1|seed:1"]
    assert in_use(site(tmp_path, seed, 2))[0] == ["mse|1000|-1|seed:1"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-30],
        lambda text: text.replace(b"pushed:1", b"pushed:2"),
        lambda _: b"",
        lambda text: text.replace(b"routerd stash 1", b"routerd stash 9"),
        lambda text: text[:20] + b"\xff\xfe" + text[22:],
    ],
)
def test_a_damaged_stash_is_not_used(damage, tmp_path: Path, seed: Path, caplog) -> None:
    """The seed is, and the log says why; what is pushed then is kept again."""
    site(tmp_path, seed).table(PUSHED)
    path = tmp_path / "kept"
    path.write_bytes(damage(path.read_bytes()))
    with caplog.at_level(logging.WARNING, "ROUTER_CORE"):
        one = site(tmp_path, seed)
    assert in_use(one)[0] == ["mse|1000|-1|seed:1"]
    assert f"the snapshot in {path} is not used: the file was changed" in caplog.text
    one.table(PUSHED)
    assert in_use(site(tmp_path, seed)) == in_use(one)


def test_a_stash_of_another_table_is_not_used(tmp_path: Path, seed: Path) -> None:
    kept = Kept("other", "t")
    keeper = Keeper()
    keeper.put(str(tmp_path / "kept"), Use(kept, TABLE, {}))
    keeper.flush()
    assert in_use(site(tmp_path, seed))[0] == ["mse|1000|-1|seed:1"]


def test_the_table_goes_and_so_does_what_was_kept(tmp_path: Path, seed: Path) -> None:
    one = site(tmp_path, seed)
    one.table(PUSHED)
    assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o600
    one.core.configure(SetTables([]))
    assert list(tmp_path.glob("kept*")) == []


def test_a_file_that_cannot_be_written_is_said_once(tmp_path: Path, seed: Path, caplog) -> None:
    """And tables are taken all the same."""
    gone = tmp_path / "gone"
    gone.mkdir()
    one = TableSite(seed=str(seed), stamp=(1,), stash=str(gone / "kept"))
    shutil.rmtree(gone)
    with caplog.at_level(logging.WARNING, "ROUTER_CORE"):
        assert one.table(PUSHED)[0].ok
        assert one.table(UPDATE)[0].ok
    assert caplog.text.count("cannot be kept in") == 1


def test_the_latest_is_what_is_kept(tmp_path: Path) -> None:
    """A writer that is interrupted by newer ones writes the newest last, and leaves nothing half-written."""
    path = tmp_path / "kept"
    keeper = Keeper()
    for number in range(5):
        keeper.put(str(path), Use(Kept("t", str(number)), TABLE, {}))
        keeper.step()
    assert keeper.busy
    keeper.flush()
    assert stash.read(path)[0].table_id == "4"
    assert list(tmp_path.iterdir()) == [path]


@settings(max_examples=40)
@given(entries=ENTRIES, owners=st.dictionaries(st.from_regex(r"[a-z0-9]{1,12}", fullmatch=True), ENDPOINTS))
def test_what_is_kept_is_what_is_in_use(entries, owners, tmp_path_factory) -> None:
    """Any table and map: entries in force, and owners."""
    path = tmp_path_factory.getbasetemp() / "kept"
    lines = [
        f"mse|{','.join([str(mt), *senders])}|{sid}|{';'.join(map(','.join, groups))}"
        for mt, senders, sid, groups in entries
    ]
    text = "\n".join(["newrt|start|id", *lines, f"newrt|end|{len(lines)}", ""])
    (table,) = Parser().feed(text)
    assert isinstance(table, Table)
    keeper = Keeper()
    keeper.put(str(path), Use(Kept("t", "id"), table, owners))
    keeper.flush()
    results = list(Parser().feed(stash.read(path)[1]))
    again = results[0]
    assert isinstance(again, Table)
    assert list(map(str, again.rows())) == [str(table.row(at)) for at in in_force(table)]
    maps = results[1:]
    assert [one.owners for one in maps if isinstance(one, MeidMap)] == ([owners] if owners else [])


def test_a_file_of_somebody_else_is_not_read(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "kept"
    path.write_text("x")
    monkeypatch.setattr("os.geteuid", lambda: path.stat().st_uid + 1)
    if path.stat().st_uid:
        with pytest.raises(SnapshotError, match="another user"):
            stash.read(path)
