"""What pyarrow and Spark are given of a directory, local or with a URL."""

import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyarrow import fs

from pipeline.cli import pipeline
from pipeline.errors import PipelineError
from pipeline.files import appears_whole, file_system, for_spark, literal


@pytest.mark.parametrize(
    ("directory", "asked", "root", "called"),
    [
        ("s3a://b/flows", "s3://b/flows", "b/flows", "s3a://b/flows/raw/x"),
        ("s3://b/flows/", "s3://b/flows/", "b/flows/", "s3://b/flows/raw/x"),
        ("s3a://b/a%20b?region=r", "s3://b/a%20b?region=r", "b/a b", "s3a://b/a b/raw/x"),
        ("s3a://b", "s3://b", "b", "s3a://b/raw/x"),
        ("gs://b/flows", "gs://b/flows", "b/flows", "gs://b/flows/raw/x"),
        ("abfs://c@acc.dfs.core.windows.net/f", "abfs://c@acc.dfs.core.windows.net/f", "c/f",
         "abfs://c@acc.dfs.core.windows.net/f/raw/x"),
        ("abfss://c@acc.dfs.core.windows.net/f", "abfss://c@acc.dfs.core.windows.net/f", "c/f",
         "abfss://c@acc.dfs.core.windows.net/f/raw/x"),
        ("hdfs://name:8020/flows", "hdfs://name:8020/flows", "/flows", "hdfs://name:8020/flows/raw/x"),
        ("hdfs://service/flows", "hdfs://service/flows", "/flows", "hdfs://service/flows/raw/x"),
    ],
)  # fmt: skip
def test_scheme_and_authority_stay(
    monkeypatch: pytest.MonkeyPatch, directory: str, asked: str, root: str, called: str
) -> None:
    """pyarrow's root is what its `from_uri` returns for such a URL; what follows a `?` is for pyarrow alone."""
    given: list[str] = []

    class FileSystem:
        @staticmethod
        def from_uri(uri: str) -> tuple[Any, str]:
            given.append(uri)
            return fs.LocalFileSystem(), root

    monkeypatch.setattr(fs, "FileSystem", FileSystem)
    _, found = file_system(directory)
    assert given == [asked]
    assert for_spark(directory, found, f"{found}/raw/x") == called


def test_a_path_is_a_pattern_of_itself_alone() -> None:
    """Spark reads what matches, and a backslash takes a character as it is."""
    assert literal("file:///a b%20/x=1&2") == "file:///a b%20/x=1&2"
    assert literal(r"s3a://b/[1]{x,y}*?\z") == r"s3a://b/\[1\]\{x,y\}\*\?\\z"


def test_the_roots_are_those_of_pyarrow() -> None:
    """Of the stores that can be named without asking them."""
    assert fs.FileSystem.from_uri("s3://b/a%20b?region=r")[1] == "b/a b"
    assert fs.FileSystem.from_uri("gs://anonymous@b/flows")[1] == "b/flows"


def test_a_local_directory_has_a_scheme_for_spark(tmp_path: Path) -> None:
    """On a cluster whose default is another file system, Spark would look there."""
    _, root = file_system(str(tmp_path / "a b"))
    assert for_spark(str(tmp_path / "a b"), root, f"{root}/raw") == f"file://{tmp_path}/a b/raw"


@pytest.mark.parametrize(
    ("directory", "said"),
    [
        ("s3a:/bucket/flows", "is not a URL: write two slashes, s3a://…"),
        ("hdfs:/flows", "is not a URL: write two slashes, hdfs://…"),
        ("wasb://c@a/flows", "cannot be reached: Unrecognized filesystem type in URI"),
        ("s3a://key:PASSWORD@bucket/flows", "a URL of bucket has a password in it"),
    ],
)
def test_what_is_no_url_is_said(directory: str, said: str) -> None:
    """A path in which `//` became `/` is not a directory called `s3a:`; a password is not printed."""
    with pytest.raises(PipelineError) as raised:
        file_system(directory)
    assert said in str(raised.value)
    assert "PASSWORD" not in str(raised.value)


def test_only_some_file_systems_rename_in_one_step() -> None:
    """The others copy."""
    local = fs.LocalFileSystem()
    assert appears_whole(local)
    assert not appears_whole(fs.S3FileSystem(anonymous=True, region="r"))
    assert not appears_whole(fs.SubTreeFileSystem("/tmp", local))


def test_a_generated_log_is_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No directory called `s3a:` appears."""
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(pipeline, ["generate", "s3a://bucket/flows"])
    assert (done.exit_code, done.output.count("\n")) == (1, 1), done.output
    assert "s3a://bucket/flows is a URL: generate a log in a local directory" in done.output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            b"/tmp/caf\xe9",
            r"/tmp/caf\xe9 has octets that are no UTF-8, and neither pyarrow nor Spark can open it: rename",
        ),
        (b" ", "' ' is no directory: give its name"),
        (b"", "'' is no directory: give its name"),
    ],
)
@pytest.mark.parametrize(
    "words",
    [
        ("run", "--input", "?", "--output", "out"),
        ("run", "--input", "log", "--output", "?"),
        ("stream", "--input", "log", "--output", "?"),
        ("check", "--results", "?"),
        ("generate", "?"),
    ],
)
def test_a_name_that_is_no_directory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], name: bytes, said: str
) -> None:
    """In one sentence, before anything is made; the current directory is not meant."""
    monkeypatch.chdir(tmp_path)
    Path("log").mkdir()
    given = os.fsdecode(name)
    done = CliRunner().invoke(pipeline, [given if word == "?" else word for word in words])
    assert (done.exit_code, done.output.count("\n")) == (1, 1), done.output
    assert done.output.startswith(f"Error: {said}")
