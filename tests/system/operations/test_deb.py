"""The Debian package: what is in it, and that the program in it runs where it will stand.

test_deb_service.py installs it in a Debian of its own.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from routerd.__main__ import main
from tests.support.routers.debs import ASKED, deb, wheel
from tests.support.tree import ROOT

FOLDERS = ("etc/logrotate.d", "etc/routerd", "opt/routerd", "usr/bin", "usr/lib/systemd", "usr/lib/sysusers.d",
           "usr/lib/tmpfiles.d", "usr/share")  # fmt: skip
SCRIPTS = ("postinst", "postrm", "prerm")
# The folders as installed, with nothing of this machine's Python in the environment.
THERE = """
set -e
mount -t tmpfs none /opt
mkdir /opt/routerd
mount --bind {tree}/opt/routerd /opt/routerd
cd /
exec env -i PATH=/usr/bin:/bin HOME=/nonexistent {command}
"""


def output(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package")
    return deb(wheel(folder), "0.1.0", folder)


@pytest.fixture(scope="module")
def tree(package: Path) -> Path:
    """The package as it is unpacked."""
    folder = package.with_name("tree")
    output("dpkg-deb", "-R", package, folder)
    return folder


def test_every_file_is_in_a_folder_of_its_kind(tree: Path) -> None:
    """Nothing lies elsewhere, nothing is the builder's, and only the configuration is the administrator's."""
    files = [file for file in tree.rglob("*") if not file.is_dir() and tree / "DEBIAN" not in file.parents]
    assert not [file for file in files if not str(file.relative_to(tree)).startswith(FOLDERS)]
    assert not [file for file in files if not file.is_symlink() and file.stat().st_mode & 0o7022]
    assert (tree / "DEBIAN/conffiles").read_text().split() == ["/etc/routerd/routerd.conf", "/etc/logrotate.d/routerd"]
    texts = [file for file in files if file.suffix in ("", ".py", ".cfg", ".pyc", ".so") and not file.is_symlink()]
    assert not [file for file in texts if str(ROOT).encode() in file.read_bytes()]


def test_modules_of_the_package_are_below_routerd(tree: Path) -> None:
    """The environment's other modules are those of distributions that the router requires."""
    (site,) = (tree / "opt/routerd/lib").glob("python3.*/site-packages")
    there = {one.name for one in site.iterdir()}
    assert not {"core", "shm", "workers", "pipeline", "bench", "proton", "pyarrow", "pyspark", "pytest"} & there
    assert {"routerd", "click", "msgspec", "cffi"} <= there
    assert {"core", "shm", "workers", "pipeline", "proton"} <= {one.name for one in (site / "routerd/lib").iterdir()}


def test_it_needs_the_libraries_that_it_is_linked_with(tree: Path) -> None:
    """And the Python for which its modules are compiled."""
    control = (tree / "DEBIAN/control").read_text()
    (needs,) = [line for line in control.splitlines() if line.startswith("Depends: ")]
    minor = sys.version_info.minor
    assert f"python3 (>= 3.{minor}~), python3 (<< 3.{minor + 1}~)" in needs
    assert all(f" {library} (>= " in needs for library in ("libc6", "libssl3", "libsasl2-2"))


def test_each_command_has_a_page_and_completion(tree: Path) -> None:
    """The pages are what `man` can show without a complaint; the three shells ask the program itself."""
    pages = {page.name for page in (tree / "usr/share/man/man1").iterdir()}
    assert {f"routerd-{name}.1.gz" for name in main.commands} | {"routerd.1.gz", "routerd-table-push.1.gz"} <= pages
    if reader := shutil.which("man"):
        shown = subprocess.run(
            [reader, "--warnings", "-E", "UTF-8", "-l", tree / "usr/share/man/man1/routerd-manage.1.gz"],
            capture_output=True, text=True, check=True, env=os.environ | {"MANWIDTH": "80"},
        )  # fmt: skip
        assert "routerd manage query --type link linkName owningAddr deliveryCount" in shown.stdout
        assert shown.stderr == ""
    output("bash", "-n", tree / "usr/share/bash-completion/completions/routerd")
    assert "#compdef routerd" in (tree / "usr/share/zsh/vendor-completions/_routerd").read_text()
    assert "complete" in (tree / "usr/share/fish/vendor_completions.d/routerd.fish").read_text()


def test_the_scripts_are_shell(tree: Path) -> None:
    for script in SCRIPTS:
        output("sh", "-n", tree / "DEBIAN" / script)


@pytest.mark.skipif(not ASKED, reason="it takes half a minute: make test-packages runs it")
@pytest.mark.skipif(not shutil.which("lintian"), reason="install the Debian package lintian to check the package")
def test_lintian_finds_nothing(package: Path) -> None:
    """Each exception stands in package/lintian-overrides with its reason."""
    packed = ("uses-no-compression-for-control-tarball", "uses-no-compression-for-data-tarball")  # by this test
    command = [shutil.which("lintian") or "", "--fail-on", "error,warning", f"--suppress-tags={','.join(packed)}"]
    found = subprocess.run([*command, package], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="a mount namespace of its own needs root: run the tests as root")
@pytest.mark.skipif(
    not Path(f"/usr/bin/python3.{sys.version_info.minor}").exists(),
    reason="the distribution's python3 is of another version",
)
def test_the_program_runs_where_it_will_stand(tree: Path) -> None:
    """With the distribution's Python and nothing else; its sample configuration is right."""
    program = "/opt/routerd/bin/routerd"
    command = f"sh -c '{program} version; {program} check {tree}/etc/routerd/routerd.conf'"
    code = THERE.format(tree=tree, command=command)
    told = output("unshare", "--mount", "bash", "-c", code)
    assert told.startswith("routerd 0.1.0, commit ")
    assert "routerd.conf: ok (4 entities)" in told
