"""What a control group allows, read from a tree of files such as the kernel shows."""

from pathlib import Path

import pytest

from routerd.config.rules import values
from routerd.machine.allowance import cpu_limit, memory_limit, too_little

MIB = 1024 * 1024


def group(folder: Path, membership: str, **settings: str) -> tuple[Path, Path]:
    """A file for each setting, named `GROUP__file_max`; the mount point and the list of memberships."""
    mount, member = folder / "cgroup", folder / "member"
    member.write_text(membership)
    for name, text in settings.items():
        where, _, file = name.partition("__")
        place = mount / where.replace("_", "/").strip("/")
        place.mkdir(parents=True, exist_ok=True)
        (place / file.replace("_", ".")).write_text(f"{text}\n")
    return mount, member


def test_the_tightest_limit_counts(tmp_path: Path) -> None:
    """Of the group itself, of those above it; `max` is none."""
    place = group(
        tmp_path,
        "1:memory:/old\n0::/a/b\n",
        a_b__memory_max="max",
        a__memory_max=str(300 * MIB),
        __memory_max=str(900 * MIB),
        a_b__cpu_max="150000 100000",
        a__cpu_max="max 100000",
        c__memory_max="1",
    )
    assert memory_limit(*place) == 300 * MIB
    assert cpu_limit(*place) == 1.5


@pytest.mark.parametrize("membership", ["", "4:memory:/x\n", "0::/\n", "0::/../elsewhere\n", "0::\n"])
def test_where_nothing_is_said_there_is_no_limit(tmp_path: Path, membership: str) -> None:
    """Version 1, the group at the top, one that cannot be seen from here, nonsense in the files."""
    place = group(tmp_path, membership, __cpu_max="0 0", __memory_max="", x__memory_max="5")
    assert (memory_limit(*place), cpu_limit(*place)) == (None, None)
    assert memory_limit(tmp_path / "none", tmp_path / "none") is None


def test_what_is_said_of_too_little() -> None:
    """Two numbers, and what to do."""
    assert too_little(2, 96, None) == too_little(2, 96, 432 * MIB) == ""
    text = too_little(2, 96, 256 * MIB)
    assert "may take 432 MiB, but the control group allows 256 MiB" in text
    assert "raise the limit" in text
    assert too_little(2, 96, 496 * MIB, 64 * MIB) == ""
    text = too_little(2, 96, 495 * MIB, 64 * MIB)
    assert "a flight recorder of 64 MiB" in text
    assert "may take 496 MiB" in text


@pytest.mark.parametrize(("quota", "workers"), [(None, 7), (2.0, 1), (2.5, 2), (0.5, 1), (64.0, 7)])
def test_auto_is_one_less_than_the_cpus_that_may_be_used(
    monkeypatch: pytest.MonkeyPatch, quota: float | None, workers: int
) -> None:
    """A container of two CPUs on a machine of eight needs no seven workers."""
    monkeypatch.setattr(values, "usable_cpus", lambda: tuple(range(8)))
    monkeypatch.setattr(values, "cpu_limit", lambda: quota)
    assert values.auto_workers() == workers


def test_a_group_whose_name_is_not_utf_8(tmp_path: Path) -> None:
    mount, member = group(tmp_path, "", __memory_max=str(MIB))
    member.write_bytes(b"0::/a\xff\n")
    assert memory_limit(mount, member) == MIB
