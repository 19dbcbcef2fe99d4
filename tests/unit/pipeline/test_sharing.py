"""The archive of Java's classes: made once, kept whole or not at all, and refused by Java alone."""

import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from pipeline import session
from pipeline.sharing import Sharing, archive


def a_spark(writes: Path | None = None) -> Any:
    """Spark's context after its end, whose Java leaves the archive it was told to make."""

    class Context:
        _jvm: Any = "Java"
        _gateway: Any = mock.Mock()

    if writes is not None:
        Context._gateway.proc.wait.side_effect = lambda: writes.write_bytes(b"classes")
    return Context()


def test_each_java_and_each_spark_has_an_archive_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "jars").mkdir()
    first = archive("java 17", tmp_path)
    assert first == archive("java 17", tmp_path)
    assert first.parent == tmp_path / "cache" / "routerd"
    assert archive("java 21", tmp_path) != first
    os.utime(tmp_path / "jars", (1, 1))
    assert archive("java 17", tmp_path) != first


def test_the_first_session_leaves_what_the_next_ones_use(tmp_path: Path) -> None:
    """It waits until Java has written it, and a session that only reads makes none."""
    kept = tmp_path / "routerd" / "spark-1.jsa"
    assert Sharing(kept, make=False).options == ""
    first = Sharing(kept, make=True)
    assert f"-XX:ArchiveClassesAtExit={tmp_path}/routerd/spark-1.new " in first.options
    spark = a_spark(kept.with_suffix(".new"))
    first.settle(spark, well=True)
    assert (type(spark)._gateway, type(spark)._jvm) == (None, None)
    assert [one.name for one in kept.parent.iterdir()] == ["spark-1.jsa"]
    for make in (True, False):
        later = Sharing(kept, make)
        assert f"-XX:SharedArchiveFile={kept} " in later.options
        spark = a_spark()
        later.settle(spark, well=True)
        assert type(spark)._gateway is not None  # its Java goes on


def test_a_session_that_fails_leaves_nothing_and_waits_for_nothing(tmp_path: Path) -> None:
    """Its Java is ended before it writes."""
    kept = tmp_path / "spark-1.jsa"
    kept.with_suffix(".new").write_bytes(b"a part, of a session that was killed")
    spark = a_spark()
    gateway = spark._gateway
    Sharing(kept, make=True).settle(spark, well=False)
    gateway.proc.kill.assert_called_once()
    assert list(tmp_path.iterdir()) == []


def test_where_nothing_can_be_kept_java_starts_without(tmp_path: Path) -> None:
    """A user without a home, and one whose cache is a file."""
    (tmp_path / "file").write_text("")
    for place in (Path("~/.cache/routerd/spark-1.jsa"), tmp_path / "file" / "spark-1.jsa"):
        assert Sharing(place, make=True).options == ""


def test_java_takes_these_options(tmp_path: Path) -> None:
    """It writes an archive at its end, uses it, and starts without one that is damaged."""
    java = shutil.which("java")
    if java is None:
        pytest.skip("there is no Java")
    kept = tmp_path / "spark-1.jsa"

    def said(sharing: Sharing) -> str:
        words = [java, *sharing.options.split(), "-version"]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        return done.stderr

    first = Sharing(kept, make=True)
    plain = said(first)
    assert plain.startswith("openjdk version")
    process = SimpleNamespace(stdin=mock.Mock(), wait=mock.Mock(), kill=mock.Mock())
    spark = a_spark()
    type(spark)._gateway.proc = process
    first.settle(spark, well=True)
    assert kept.stat().st_size > 1 << 10
    assert said(Sharing(kept, make=True)) == plain
    kept.chmod(0o600)
    kept.write_bytes(b"no archive")
    assert said(Sharing(kept, make=True)).splitlines()[:2] == plain.splitlines()[:2]


@pytest.mark.parametrize(("records", "brief"), [(1000, True), (session.FEW + 1, False), (None, False)])
def test_java_compiles_quickly_where_there_is_little_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: int | None, brief: bool
) -> None:
    """And well where there is much, or nobody knows. An option of the user is left alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def options(**given: str) -> str:
        builder, _ = session._build(None, {session.MEMORY: "512m", **given}, tmp_path, records)
        return str(builder._options[session.JAVA_OPTIONS])

    assert (session.BRIEF in options()) == brief
    assert (session.JAVA in options()) != brief
    assert ("-XX:ArchiveClassesAtExit" in options()) == (records is not None)
    assert options(**{session.JAVA_OPTIONS: "-Xint"}).endswith(" -Xint")
    assert "ArchiveClassesAtExit" not in options(**{session.JAVA_OPTIONS: "-Xint"})


@pytest.mark.parametrize(("records", "few"), [(1000, True), (session.FEW + 1, False), (None, False)])
def test_plans_are_made_once_where_there_is_little_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: int | None, few: bool
) -> None:
    """And anew after each stage where there is much, or nobody knows. A setting of the user counts."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    name = "spark.sql.adaptive.enabled"

    def said(**given: str) -> str | None:
        return session._build(None, {session.MEMORY: "512m", **given}, tmp_path, records)[0]._options.get(name)

    assert said() == ("false" if few else None)
    assert said(**{name: "true"}) == "true"
