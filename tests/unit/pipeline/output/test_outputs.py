"""Where the pipeline writes: nothing goes but what it made, and results appear as a whole or not at all."""

import errno
import os
import shutil
from pathlib import Path

import pytest
from pyarrow import fs

from pipeline.errors import PipelineError
from pipeline.output import generations
from pipeline.output.directory import RESULTS, STREAM, Kind, Output, claimed
from pipeline.output.generations import begin, current, read
from pipeline.output.rollups import Day, Rollups, Sum
from pipeline.scratch import MARKER, scratch
from tests.support.pipeline.mortal import Killed, Mortal, disk
from tests.support.pipeline.output import HOUR, ID, claim, make, part, tree


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """What is read: a flow log with a file in it."""
    file = tmp_path / "data" / "flows" / "raw" / "date=2026-01-05" / "hour=00" / "R1-all-0-000001.parquet"
    file.parent.mkdir(parents=True)
    file.write_text("records")
    return tmp_path / "data" / "flows"


@pytest.mark.parametrize("kind", [RESULTS, STREAM])
@pytest.mark.parametrize("entry", ["traffic/x.parquet", ".ssh/id", ".hidden", "thesis.txt", ".git/objects/"])
def test_a_directory_of_somebody_else_is_refused_untouched(tmp_path: Path, log: Path, kind: Kind, entry: str) -> None:
    """Whatever is in it, hidden or called like a table; the error names the directory and what was found."""
    home = tmp_path / "home"
    target = home / entry
    target.parent.mkdir(parents=True)
    target.mkdir() if entry.endswith("/") else target.write_text("precious")
    before = tree(home)
    found = rf"home holds what routerd did not make \({entry.partition('/')[0]}\)"
    with pytest.raises(PipelineError, match=found):
        claim(home, log, kind)
    assert tree(home) == before
    shutil.copytree(log, tmp_path / "log")
    with pytest.raises(PipelineError, match="log holds what"):  # another log, which is not read now
        claim(tmp_path / "log", log, kind)
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(PipelineError, match="file is not a directory"):
        claim(file, log, kind)


def test_an_empty_or_a_new_directory_becomes_ours(tmp_path: Path, log: Path) -> None:
    """It carries a marker; from then on files of others in it are in nobody's way."""
    (tmp_path / "empty").mkdir()
    for name in ("empty", "new/below"):
        claim(tmp_path / name, log)
        assert os.listdir(tmp_path / name) == ["_routerd_results"]
        (tmp_path / name / ".notes").touch()
        claim(tmp_path / name, log)
        with pytest.raises(PipelineError, match="is the output of `routerd pipeline run`"):
            claim(tmp_path / name, log, STREAM)
    with pytest.raises(PipelineError, match=r"new/below/\.notes cannot be|\.notes is not a directory"):
        claim(tmp_path / "new/below/.notes", log)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("data/flows", "is the log"),
        ("data/flows/results", "is in the log"),
        ("data/flows/raw", "is in the log"),
        ("data", "is above the log"),
        (".", "is above the log"),
        ("link", "is the log"),
        ("link/raw/../x", "is in the log"),
        ("over", "is above the log"),
        ("elsewhere", "is above the log"),
        ("elsewhere/compact/x", "is in the log"),
    ],
)
def test_the_log_is_no_output(
    tmp_path: Path, log: Path, place: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is what is in it or above it, through links as well, also where there is a marker."""
    (tmp_path / "link").symlink_to(log)
    (tmp_path / "over").symlink_to(log.parent)
    (tmp_path / "elsewhere" / "compact").mkdir(parents=True)
    (log / "compact").symlink_to(tmp_path / "elsewhere" / "compact")
    monkeypatch.chdir(tmp_path)
    for directory in (place, str(tmp_path / place), f"file://{tmp_path / place}"):
        with pytest.raises(PipelineError, match=said):
            claim(directory, log)
    before = tree(tmp_path)
    with pytest.raises(PipelineError, match=said):
        claim(place, tmp_path / "link", STREAM)
    assert tree(tmp_path) == before
    claim("data/results", log)  # beside it


def test_one_process_at_a_time_writes(tmp_path: Path, log: Path) -> None:
    """The other one is told to wait, and nothing of the first one is removed."""
    with (
        claimed(str(tmp_path / "out"), RESULTS, str(log)),
        pytest.raises(PipelineError, match=r"another `routerd pipeline run` is writing to .*out: wait"),
    ):
        claim(tmp_path / "out", log)
    claim(tmp_path / "out", log)


def test_only_our_own_leftovers_go(tmp_path: Path, log: Path) -> None:
    """Those of killed runs, by their exact names; not what is called nearly so, and nothing behind a link."""
    output = claim(tmp_path / "out", log)
    former, last = make(output, "former"), make(output, "last")
    out, foreign = tmp_path / "out", tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "x").write_text("precious")
    for name in ("run-notes", f"run-{ID}0", ".git", f".report.html-{ID}x", "traffic", f".trash-{ID}"):
        (out / name).mkdir()
        (out / name / "x").write_text("precious")
    (out / f"rollup-{ID}").mkdir()
    (out / ".hidden").write_text("precious")
    (out / f"run-{ID}").symlink_to(foreign)
    (out / f"{former.name}.bak").mkdir()
    kept = tree(out)
    (out / output.fresh("run")).mkdir()
    (out / output.fresh(".report.html")).touch()
    (out / output.fresh(".current")).symlink_to("run-x")
    gone = {name for name in kept if name.partition("/")[0] in (former.name, former.rollup)}
    fresh = begin(output)
    Path(fresh.root).rmdir()
    assert tree(out) == {name: text for name, text in kept.items() if name not in gone}
    assert current(str(out)).name == last.name


@pytest.mark.parametrize("local", [True, False])
def test_what_somebody_put_into_a_run_keeps_it(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch, local: bool
) -> None:
    """Its tables, too: they are what the notes beside them are about."""
    if not local:
        files = fs.SubTreeFileSystem("/", fs.LocalFileSystem())
        monkeypatch.setattr("pipeline.output.directory.file_system", lambda path: (files, path))
    output = claim(tmp_path / "out", log)
    run = Path(make(output, "one").root)
    (run / "traffic" / "analysis.ipynb").write_text("precious")
    kept = tree(run)
    failed = begin(output)
    Path(failed.root, "links").mkdir()
    Path(failed.root, "links", ".notes").touch()
    failed.remove()
    linked = begin(output)
    if local:
        Path(linked.root, "link").symlink_to(log)
        linked.remove()
    for name in ("two", "three", "four"):
        make(output, name)
    assert tree(run) == kept
    assert Path(failed.root, "links", ".notes").exists()
    assert Path(linked.root).exists() == local
    assert len(list((tmp_path / "out").glob("run-*"))) == (5 if local else 4)


def test_what_takes_our_names_is_refused(tmp_path: Path, log: Path) -> None:
    """`current`, the report and the plan are replaced only where we made them."""
    out = tmp_path / "out"
    output = claim(out, log)
    (out / "current").write_text("precious")
    with pytest.raises(PipelineError, match="out/current does not name a run of routerd"):
        begin(output)
    (out / "current").unlink()
    made = make(output, "one")
    for name, ours in (("report.html", generations.SIGNS["report.html"]), ("plan.rt", "newrt|start|plan-1")):
        (out / name).write_text("precious")
        with pytest.raises(PipelineError, match=f"{name} is there already, and routerd did not make it"):
            made.write_text(name, ours)
        assert (out / name).read_text() == "precious"
        (out / name).unlink()
        for _ in range(2):
            assert made.write_text(name, ours) == str(out / name)


def test_a_report_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash of the machine an empty one would be refused as somebody else's."""
    made = make(claim(tmp_path / "out", log), "one")
    synced: dict[int, bool] = {}
    target = tmp_path / "out" / "report.html"
    monkeypatch.setattr(generations.os, "fsync", lambda file: synced.update({os.fstat(file).st_ino: target.exists()}))
    made.write_text("report.html", generations.SIGNS["report.html"])
    assert synced[target.stat().st_ino] is False


@pytest.mark.parametrize("local", [True, False])
def test_a_killed_run_leaves_the_former_results_whole(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch, local: bool
) -> None:
    """Before any of its steps; the next run removes what it left. So where there are no links."""
    files = disk(local)
    monkeypatch.setattr("pipeline.output.directory.file_system", lambda path: (files, path))
    for name in ("symlink", "replace"):
        monkeypatch.setattr(generations.os, name, Mortal.step(getattr(os, name)))
    out = tmp_path / "out"
    make(claim(out, log), "former")
    assert (out / "current" / "summary.json").is_file() == local  # a stable path for who opens tables
    seen = set()
    for at in range(50):
        Mortal.left, died = at, True
        try:
            make(claim(out, log), f"run {at}")
            died = False
        except Killed:
            pass
        Mortal.left = 1 << 30
        found = current(str(out))
        seen.add(made := found.summary()["made"])
        assert Path(found.root, "traffic", part(made)).read_text() == made
        [rollup] = Rollups(found.output, found.name, "rollups").files("traffic", [HOUR])
        assert Path(rollup.removeprefix("file://")).read_text() == made
        if not died:
            break
    assert 4 < at < 49
    assert seen == {"former", f"run {at}"}
    make(claim(out, log), "last")
    assert current(str(out)).summary()["made"] == "last"
    assert len(list(out.glob("run-*"))) == len(list(out.glob("rollup-*"))) == 2
    assert not list(out.glob(".*"))


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
def test_without_links_a_file_names_the_last_run(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """On a local file system such as FAT, or in user space; other errors are errors, a file of others is not ours."""
    out = tmp_path / "out"
    output = claim(out, log)
    make(output, "linked")

    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(generations.os, "symlink", refused)
        patch.setattr(generations.os, "link", refused)
        for name in ("one", "two"):
            made = make(output, name)
            assert (out / "current").read_text() == f"{made.name}\n"
            assert current(str(out)).summary()["made"] == name
            assert made.stable("traffic") == made.table("traffic")
        assert not made.link("other", {HOUR: Rollups(output, made.name, "rollups").hours[HOUR].files["traffic"]})
    last = make(output, "three")
    assert (out / "current").is_symlink()
    assert last.stable("traffic") == f"file://{out}/current/traffic"
    (out / "current").unlink()
    (out / "current").write_text("precious")
    with pytest.raises(PipelineError, match="current does not name a run of routerd"):
        begin(output)
    monkeypatch.setattr(generations.os, "symlink", lambda *_: os.mkdir("/proc/x"))
    (out / "current").unlink()
    with pytest.raises(FileNotFoundError):
        make(output, "four")


def test_a_table_that_is_a_rollup_has_links_to_its_files(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of two hours may have one name. Without such links nothing is left; a run with them goes as a whole."""
    output = claim(tmp_path / "out", log)
    made = begin(output)
    files = {}
    for hour in ("03", "04"):
        path = Path(output.path(made.rollup), "traffic", "date=2026-01-05", f"hour={hour}", part("one"))
        path.parent.mkdir(parents=True)
        path.write_text(hour)
        files[f"2026-01-05T{hour}"] = [str(path.relative_to(output.root))]
    assert not made.link("traffic", {hour: [] for hour in files})
    link = os.link

    def second(source: str, target: Path) -> None:
        if "T04" in target.name:
            raise OSError(errno.EPERM, "no links")
        link(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(generations.os, "link", second)
        assert not made.link("traffic", files)
    assert not Path(made.root, "traffic").exists()
    assert made.link("traffic", files)
    assert sorted(Path(one).read_text() for one in made.files("traffic")) == ["03", "04"]
    made.remove()
    assert sorted(os.listdir(tmp_path / "out")) == ["_routerd_results"]


def test_sums_of_days_stay_as_long_as_a_run_names_them(tmp_path: Path, log: Path) -> None:
    """Those of another run beside its rollups, too; what was replaced goes, and a sum whose files are gone is none."""
    output = claim(tmp_path / "out", log)
    made = begin(output)
    folder = Path(output.path(made.rollup))
    names = [f"sum_times/date=2026-01-0{day}/{part('one')}" for day in (5, 6)] + [f"ranks_times/{part('one')}"]
    for name in (*names, f"ranks_times_anew/{part('one')}"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(name)
    fifth, sixth, ranges = (f"{made.rollup}/{name}" for name in names)
    kept = Rollups(output, "", "rollups")
    days = {"2026-01-05": Day({HOUR: "x"}, [fifth]), "2026-01-06": Day({}, [sixth])}
    kept.sums["times"] = Sum(days, [ranges], made_of=7, since=1)
    made.publish({}, kept.text({}))
    second = begin(output)
    assert sorted(path.name for path in folder.iterdir()) == ["ranks_times", "sum_times"]
    again = Rollups(output, second.former, "rollups")
    assert again.sums == kept.sums
    assert Rollups(output, second.former, "others").sums == {}
    (folder / names[1]).unlink()
    again.forget_gone()
    assert again.sums == {"times": Sum({"2026-01-05": days["2026-01-05"]}, [ranges], made_of=7, since=1)}
    (folder / names[2]).unlink()
    again.forget_gone()
    assert again.sums == {}
    second.publish({}, again.text({}))
    begin(output)
    assert not folder.exists()


def test_a_run_that_fails_leaves_nothing(tmp_path: Path, log: Path) -> None:
    """But one that readers have already stays."""
    output = claim(tmp_path / "out", log)
    failed = begin(output)
    partition = Path(output.path(failed.rollup), "traffic", "_temporary", "0", "date=2026-01-05", "hour=03")
    partition.mkdir(parents=True)
    (partition / part("half")).touch()
    failed.remove()
    made = make(output, "one")
    made.remove()
    assert sorted(os.listdir(tmp_path / "out")) == ["_routerd_results", "current", made.rollup, made.name]


def test_half_results_and_mixtures_are_refused(tmp_path: Path, log: Path) -> None:
    """In one line that says what to do: tables of another run, of none, or missing."""
    out = tmp_path / "out"
    with pytest.raises(PipelineError, match=r"out holds no results: `routerd pipeline run` makes them there$"):
        current(str(out))
    output = claim(out, log)
    begin(output)
    with pytest.raises(PipelineError, match="holds no results yet, no run has ended well"):
        current(str(out))
    former, last = make(output, "former"), make(output, "last")
    assert current(str(out)).name == last.name
    table = Path(last.root, "traffic")
    shutil.move(table, tmp_path / "aside")
    with pytest.raises(PipelineError, match=r"no complete results: in run-.* the table traffic is not there"):
        current(str(out))
    shutil.copytree(Path(former.root, "traffic"), table)
    with pytest.raises(PipelineError, match="the table traffic is not the one that the run made; `routerd"):
        current(str(out))
    shutil.rmtree(table)
    shutil.move(tmp_path / "aside", table)
    summary = Path(last.root, "summary.json")
    summary.write_text(summary.read_text().replace("results.v4", "results.v0"))
    with pytest.raises(
        PipelineError, match=r"have routerd\.results\.v0, and this version of routerd reads .*v4: `rout"
    ):
        current(str(out))
    summary.write_text("{")
    with pytest.raises(PipelineError, match=r"summary\.json cannot be read"):
        current(str(out))


def test_a_reader_has_one_run_while_another_ends(tmp_path: Path, log: Path) -> None:
    """To its end; if it takes longer than a second run, it is told why it fails."""
    output = claim(tmp_path / "out", log)
    one = make(output, "one")
    with read(str(tmp_path / "out")) as found:
        make(output, "two")
        assert found.name == one.name
        found.check()
        with pytest.raises(ValueError, match="its own"):
            fails("its own")
    with pytest.raises(PipelineError, match="replaced more than once while they were read: start again"):
        read_slowly(output)


def read_slowly(output: Output) -> None:
    with read(output.directory):
        make(output, "three")
        make(output, "four")
        fails("Spark's words for a file that is gone")


def fails(why: str) -> None:
    raise ValueError(why)


def test_only_what_killed_sessions_left_aside_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's directories among temporary files: not those in use, nor others that are called nearly so."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in ("routerd-spark-1-results", "routerd-spark-abcdefgh", f"routerd-spark-{ID}"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text("precious")
    (tmp_path / "routerd-spark-abcdefgi").symlink_to(tmp_path / "routerd-spark-1-results")
    kept = tree(tmp_path)
    left = tmp_path / "routerd-spark-killed__"
    left.mkdir()
    (left / MARKER).write_text("1\n")
    with scratch() as one, scratch() as other:
        assert not left.exists()
        assert one.is_dir()
        assert other.is_dir()
    assert tree(tmp_path) == kept
