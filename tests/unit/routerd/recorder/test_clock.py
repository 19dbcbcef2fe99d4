"""Retention when the clock is wrong: the time of day is believed only as far as time has really passed."""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from routerd.recorder.keeping import SPARED, Keeper
from shm.contract.flow_log.schema import RAW, clock_name, file_name, folder
from shm.contract.flow_log.setup import FlowLogSetup
from tests.support.beds.recorder_desk import NOON, Desk

KEPT = 60  # hours


class Host:
    """A machine whose time of day can be set, and the log of a router on it that keeps some days."""

    def __init__(self, root: Path, router: str = "me") -> None:
        self.root, self.router = root, router
        self.wall, self.ticks, self.life = NOON, 1000.0, "first"
        self.start()

    def start(self) -> None:
        """A recorder follows another one."""
        setup = FlowLogSetup(str(self.root), 1, keep_seconds=KEPT * 3600, compaction=False)
        self.keeper = Keeper(setup, self.router, lambda: self.ticks, lambda: self.life)

    def write(self, when: datetime | None = None) -> None:
        """A file of the present hour; nobody looks into it here."""
        path = self.root / RAW / folder(when or self.wall) / file_name(self.router, "b", 1)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")

    def pass_on(self, hours: int, write: bool = True) -> int:
        """So much time really passes; how many files are deleted meanwhile."""
        deleted = 0
        for _ in range(hours):
            self.wall += timedelta(hours=1)
            self.ticks += 3600
            if write:
                self.write()
            deleted += self.keeper.delete(self.wall)
        return deleted

    def files(self) -> int:
        return len(list(self.root.rglob(f"{self.router}-*.parquet")))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """With a log of that time, and the present hour."""
    host = Host(tmp_path)
    assert host.pass_on(KEPT + 3) == 2
    assert host.files() == KEPT + 1
    return host


@pytest.mark.parametrize("restart", [lambda host: None, Host.start])
@pytest.mark.parametrize("hours", [8 * 24, 50 * 365 * 24])
def test_a_clock_that_is_ahead_for_hours_deletes_nothing(
    host: Host, caplog: pytest.LogCaptureFixture, hours: int, restart: Callable[[Host], None]
) -> None:
    """Traffic goes on and is dated wrongly, or the recorder starts anew; it is said, and seen in a gauge.
    Once the clock is right again, files get old as ever."""
    host.wall += timedelta(hours=hours)
    restart(host)
    assert host.keeper.delete(host.wall) == 0
    assert abs(host.keeper.doubted - hours * 3600) < 3600
    assert caplog.text.count("later than expected after the time that has passed") == 1
    assert host.pass_on(5) == 5  # what is really old
    host.wall -= timedelta(hours=hours)
    assert host.pass_on(3) == 3
    assert host.keeper.doubted == 0
    assert "files of the hour that ends at" in caplog.text


@pytest.mark.parametrize("minutes", [59, 20, 3, -59])
@pytest.mark.parametrize("restarts", [False, True])
def test_small_steps_add_up(host: Host, minutes: int, restarts: bool) -> None:
    """Steps that are small each, at every look, are one large step: a clock that runs away is not believed,
    and another recorder goes on with the sum."""
    for _ in range(60):  # an hour
        host.wall += timedelta(minutes=minutes + 1)
        host.ticks += 60
        if restarts:
            host.start()
        host.keeper.delete(host.wall)
    assert host.files() >= KEPT - 6  # what is really old
    assert abs(host.keeper.doubted - 60 * minutes * 60) <= 3600
    host.wall -= timedelta(minutes=60 * minutes)  # it is set right
    host.keeper.delete(host.wall)
    assert host.keeper.doubted == 0
    assert host.files() >= KEPT - 6


def test_a_clock_that_is_kept_right_is_believed_for_good(host: Host) -> None:
    """Seconds a day are the drift of a quartz, which time servers take back; in a year they add up to less
    than an hour, and small steps to and fro are nothing."""
    for day in range(400):
        host.wall += timedelta(days=1, seconds=5)
        host.ticks += 86400
        host.wall += timedelta(minutes=30 if day % 2 else -30)
        host.keeper.delete(host.wall)
        assert host.keeper.doubted == 0


def test_a_clock_that_runs_away_is_not_believed_for_having_stood(host: Host) -> None:
    """A day of small steps, in which it never stood; it is believed when it has stood for a day."""
    host.wall += timedelta(hours=2)
    for _ in range(60):
        host.wall += timedelta(minutes=59 + 30)
        host.ticks += 1800
        host.keeper.delete(host.wall)
    assert host.files() >= KEPT - 31
    assert host.keeper.doubted > 55 * 3600
    host.pass_on(25, write=False)
    assert host.keeper.doubted == 0
    assert host.files() > 0  # the rest has really got old


def test_a_clock_that_stays_ahead_is_believed_after_a_day_and_spares_the_newest_hours(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    """These have another retentionAge, which really passes."""
    host.wall += timedelta(days=30)
    host.pass_on(25, write=False)
    assert "has stood for a day" in caplog.text
    assert host.files() == SPARED
    assert host.pass_on(KEPT - 2, write=False) == 0
    assert host.pass_on(3, write=False) == SPARED


def test_a_log_of_a_machine_that_was_off_for_long_gets_old(host: Host) -> None:
    """A day after it was switched on, but for the newest hours; and these when retentionAge has passed."""
    host.wall, host.ticks, host.life = host.wall + timedelta(days=60), 5.0, "second"
    host.start()
    assert host.keeper.delete(host.wall) == 0
    host.pass_on(25, write=False)
    assert host.files() == SPARED
    host.pass_on(KEPT, write=False)
    assert host.files() == 0


def test_an_idle_router_deletes_its_log(host: Host) -> None:
    """The time has passed, whether there were records or not, and whichever recorder was there."""
    host.pass_on(40, write=False)
    host.start()
    host.pass_on(21, write=False)
    assert host.files() == 0


@pytest.mark.parametrize("days", [3, 365 * 56])
def test_a_clock_that_is_behind_deletes_nothing_then_or_when_it_is_corrected(
    host: Host, caplog: pytest.LogCaptureFixture, days: int
) -> None:
    """As one without a battery is before it has asked for the time."""
    host.wall, host.ticks, host.life = host.wall - timedelta(days=days), 5.0, "second"
    host.start()
    assert host.pass_on(1) == 0
    assert "earlier than expected after" in caplog.text
    host.wall += timedelta(days=days)
    before = host.files()
    assert host.pass_on(1, write=False) <= 3  # two are really old, and one is dated so wrongly
    assert host.files() >= before - 3
    assert host.keeper.doubted == 0


def test_a_log_without_a_record_of_its_time_is_believed_itself(host: Host) -> None:
    """Its newest hour says how late it was: of an early version, or copied from another machine."""
    (host.root / clock_name("me")).unlink()
    host.wall += timedelta(days=8)
    host.start()
    assert host.keeper.delete(host.wall) <= 1  # by the end of that hour
    (host.root / clock_name("me")).write_text('{"at": "x"')
    host.start()
    assert host.keeper.delete(host.wall) == 0


def test_routers_that_share_a_directory_have_clocks_of_their_own(host: Host, tmp_path: Path) -> None:
    """One on a host whose clock is wrong deletes nothing of the others, nor of its own."""
    other = Host(tmp_path, "other")
    other.wall = host.wall
    other.pass_on(3)
    other.wall += timedelta(days=300)
    assert other.pass_on(2) == 0
    assert host.pass_on(1) == 1
    assert (host.files(), other.files()) == (KEPT + 1, 5)


def test_a_size_is_kept_whatever_the_clock_says(tmp_path: Path) -> None:
    """The disk is as full as it is."""
    desk = Desk(tmp_path, keep_bytes=1, compaction=False)
    desk.bed.pass_on(5)
    desk.after(0)
    desk.after(11)
    shutil.copy(desk.files()[0], desk.files()[0].with_name("me-all-b-000009.parquet"))
    keeper = Keeper(desk.setup, "me", lambda: 0.0, lambda: "machine")
    assert keeper.delete(datetime(2099, 1, 1, tzinfo=UTC)) == 2
