"""The files of an HTTP listener's httpRootDir."""

from pathlib import Path

import pytest

from routerd.exporter.folder import file_answer


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with files; a secret lies beside it."""
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "root" / "in").mkdir(parents=True)
    (tmp_path / "root" / "index.html").write_text("<p>")
    (tmp_path / "root" / "in" / "a b.txt").write_text("text")
    return tmp_path / "root"


def test_a_file_has_its_type(root: Path) -> None:
    found, index = file_answer(root, "/in/a%20b.txt"), file_answer(root, "/")
    assert found is not None
    assert index is not None
    assert (found.body, found.content_type) == (b"text", "text/plain")
    assert index.content_type == "text/html"


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt", "/in/../../secret.txt", "/%2e%2e/secret.txt", "/none", "/in", "/in/", "/in/a%20b.txt/",
        "/\0", "/%00", f"/{'n' * 300}", f"/{'n/' * 3000}",
    ],
)  # fmt: skip
def test_a_path_to_no_file_below_the_directory_has_none(root: Path, path: str) -> None:
    assert file_answer(root, path) is None


def test_links_lead_to_no_file_outside(root: Path) -> None:
    """Neither by their own path nor as the index of a directory."""
    (root / "out").symlink_to(root.parent / "secret.txt")
    (root / "in" / "index.html").symlink_to(root.parent / "secret.txt")
    (root / "up").symlink_to(root.parent)
    for path in ("/out", "/in/", "/in/index.html", "/up", "/up/secret.txt"):
        assert file_answer(root, path) is None, path


def test_a_link_to_itself_is_no_file(root: Path) -> None:
    (root / "round").symlink_to("round")
    for path in ("/round", "/round/x"):
        assert file_answer(root, path) is None, path


def test_a_directory_without_its_slash_is_asked_for_with_it(root: Path) -> None:
    """Or else a browser looks for what its index names a directory too high; no path leads to another host."""
    (root / "in" / "index.html").write_text("<p>")
    (root / "javascript:x y").mkdir()
    (root / "javascript:x y" / "index.html").write_text("<p>")
    for path, at in (("/in", "./in/"), ("//in", "./in/"), ("/javascript:x%20y", "./javascript%3Ax%20y/")):
        found = file_answer(root, path)
        assert found is not None
        assert (found.status, found.headers) == (301, {"Location": at})
    whole = file_answer(root, "/in/")
    assert whole is not None
    assert (whole.status, whole.body) == (200, b"<p>")
