"""The Debian package: what is in it, and that the program in it runs where it will stand.

test_deb_service.py installs it in a Debian of its own.
"""

import gzip
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs.site import LINK
from routerd.__main__ import main
from tests.support.routers.debs import ASKED, deb, wheel
from tests.support.tree import ROOT

FOLDERS = ("etc/logrotate.d", "etc/routerd", "opt/routerd", "usr/bin", "usr/lib/systemd", "usr/lib/sysusers.d",
           "usr/lib/tmpfiles.d", "usr/share")  # fmt: skip
SCRIPTS = ("postinst", "postrm", "preinst", "prerm")
UNITS = ("routerd.socket", "routerd.service")
INSTANCE = "routerd@a.service"
# A tool of the system that notes its command line; one fails, as without /proc; for `list-units`, the services run.
STUB = """#!/bin/sh
echo "${0##*/} $*" >>"$NOTED"
units="routerd.service routerd@a.service routerd@b.service"
[ "$1" != list-units ] || printf '%s loaded active running Router\\n' $units
[ "${0##*/}" != systemd-tmpfiles ] || exit 73
"""
TOOLS = ("chgrp", "deb-systemd-helper", "deb-systemd-invoke", "getent", "journalctl", "systemctl", "systemd-sysusers",
         "systemd-tmpfiles", "userdel")  # fmt: skip
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
    run = gzip.decompress((tree / "usr/share/man/man1/routerd-run.1.gz").read_bytes()).decode()
    assert "\n.PP\nSIGHUP makes it" in run, "a paragraph of the help is one of the page"
    assert "\\fB\\-h, \\-\\-help\\fR" in run
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


def test_its_pages_have_what_they_link(tree: Path) -> None:
    """Other pages, pictures and examples; `copyright` has the licence, as Debian wants it."""
    folder = tree / "usr/share/doc/routerd"
    pages = {page: re.sub(r"(?ms)^```.*?^```$|`[^`\n]*`", "", page.read_text()) for page in folder.rglob("*.md")}
    links = [(page, link[2].partition("#")[0]) for page, text in pages.items() for link in LINK.finditer(text)]
    assert len(links) > 300
    missing = [(str(page.relative_to(folder)), link) for page, link in links if not (page.parent / link).exists()]
    assert {link for _, link in missing} == {"LICENSE"}


def test_the_scripts_are_shell(tree: Path) -> None:
    assert sorted(file.name for file in (tree / "DEBIAN").iterdir() if file.stat().st_mode & 0o100) == sorted(SCRIPTS)
    for script in SCRIPTS:
        output("sh", "-n", tree / "DEBIAN" / script)


def test_making_packages_installs_no_tools_of_tests(tmp_path: Path) -> None:
    """`make deb` of root gets what packs: lintian alone brings a hundred packages."""
    (tmp_path / "sh").symlink_to(shutil.which("sh") or "")
    for tool, text in (("id", "echo 0"), ("apt-get", 'echo "$*"')):
        (tmp_path / tool).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / tool).chmod(0o755)
    wanted = {}
    for purpose in ("deb", "test-packages"):
        said = output(
            "env", "-i", f"PATH={tmp_path}", tmp_path / "sh", ROOT / ".ci/system-packages", purpose, sys.executable
        )
        wanted[purpose] = set(said.splitlines()[-1].split()[3:])
    assert wanted["deb"] == {"dpkg-dev", "binutils", "chrpath"}
    assert wanted["test-packages"] - wanted["deb"] == {"debootstrap", "lintian"}


class Machine:
    """A machine under systemd, of which the package's scripts see files below a folder, and tools that note calls."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.noted = root / "noted"
        for folder in ("bin", "etc/routerd", "etc/systemd/system/multi-user.target.wants", "run/systemd/system",
                       "etc/systemd/system/sockets.target.wants", "opt/routerd/bin"):  # fmt: skip
            (root / folder).mkdir(parents=True)
        for tool in (*(f"bin/{name}" for name in TOOLS), "opt/routerd/bin/routerd"):
            (root / tool).write_text(STUB)
            (root / tool).chmod(0o755)
        self.configuration = root / "etc/routerd/routerd.conf"
        self.configuration.touch()

    def run(self, script: str, *given: str) -> list[str]:
        """What a script of the package calls, with these arguments of dpkg."""
        self.noted.write_text("")
        text = (ROOT / "package/debian" / script).read_text()
        text = re.sub(r"(?<![\w.}*])/(?=etc/|opt\b|run/|srv/|usr/|var/)", f"{self.root}/", text)
        environment = os.environ | {"PATH": f"{self.root}/bin:{os.environ['PATH']}", "NOTED": str(self.noted)}
        command = ["/bin/sh", "-c", text, script, *given]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr
        return self.noted.read_text().splitlines()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def started(calls: list[str]) -> list[str]:
    return [call.split()[2] for call in calls if call.startswith("deb-systemd-invoke start ")]


def test_first_installation_starts_the_router(machine: Machine) -> None:
    machine.run("preinst", "install")
    calls = machine.run("postinst", "configure", "")
    assert started(calls) == list(UNITS)
    assert f"chgrp routerd {machine.configuration}" in calls


def test_upgrade_restarts_what_runs_and_starts_nothing(machine: Machine) -> None:
    machine.run("preinst", "upgrade", "0.1.0")
    calls = machine.run("postinst", "configure", "0.1.0")
    assert started(calls) == []
    restarts = [call.split()[-1] for call in calls if call.startswith("deb-systemd-invoke restart ")]
    assert restarts == ["routerd.service", "routerd@a.service", "routerd@b.service"], "one after the other"
    assert calls[-1] == "deb-systemd-invoke try-restart routerd-stream.service"


def test_an_instance_whose_configuration_is_refused_keeps_running(machine: Machine) -> None:
    """The others are restarted. Each unit checks for itself: root may read more than the router's user, and has not
    the environment of the unit."""
    refusing = f'[ "$1 $2" != "reload {INSTANCE}" ]\n'
    (machine.root / "bin/deb-systemd-invoke").write_text(STUB + refusing)
    (machine.root / "opt/routerd/bin/routerd").write_text("#!/bin/sh\nexit 1\n")
    calls = machine.run("postinst", "configure", "0.1.0")
    restarts = [call.split()[-1] for call in calls if call.startswith("deb-systemd-invoke restart ")]
    assert restarts == ["routerd.service", "routerd@b.service"]
    assert [call for call in calls if call.startswith("journalctl ") and INSTANCE in call], "apt shows the mistakes"


def test_a_removal_leaves_the_folder_that_was_there_before(machine: Machine) -> None:
    """dpkg removes /opt if nothing else is in it."""
    for action in ("remove", "purge"):
        shutil.rmtree(machine.root / "opt")
        machine.run("postrm", action)
        assert [*(machine.root / "opt").iterdir()] == []


def test_installation_after_a_removal_starts_the_router_once(machine: Machine) -> None:
    """dpkg names the version of before, as in an upgrade. `deb-systemd-invoke start` leaves alone what is disabled."""
    for target, unit in (("multi-user", INSTANCE), ("sockets", INSTANCE.replace(".service", ".socket"))):
        (machine.root / "etc/systemd/system" / f"{target}.target.wants" / unit).symlink_to("/nonexistent")
    machine.run("preinst", "install", "0.1.0")
    assert started(machine.run("postinst", "configure", "0.1.0")) == [*UNITS, "routerd@a.socket", INSTANCE]
    machine.run("preinst", "upgrade", "0.2.0")
    assert started(machine.run("postinst", "configure", "0.2.0")) == []


def test_scripts_need_no_configuration(machine: Machine) -> None:
    """The administrator may have deleted it, and dpkg does not bring it back."""
    machine.configuration.unlink()
    machine.run("preinst", "upgrade", "0.1.0")
    calls = machine.run("postinst", "configure", "0.1.0")
    assert not [call for call in calls if call.startswith("chgrp")]
    assert "deb-systemd-invoke restart routerd.service" in calls


def test_a_purge_leaves_nothing_of_an_installation_that_was_not_completed(machine: Machine) -> None:
    """Links to our unit lead nowhere then; the administrator's own are left."""
    before = {*(machine.root / "run").rglob("*")}
    enabled = machine.root / "etc/systemd/system/multi-user.target.wants"
    for name, place in ((INSTANCE, "/lib/systemd/system/routerd@.service"), ("mine.service", "/nonexistent")):
        (enabled / name).symlink_to(place)
    machine.run("preinst", "install", "0.1.0")
    assert "userdel routerd" in machine.run("postrm", "purge")
    assert {*(machine.root / "run").rglob("*")} == before
    assert [one.name for one in enabled.iterdir()] == ["mine.service"]


def test_flow_log_package_has_only_what_the_other_package_lacks() -> None:
    """dpkg refuses two packages with one file."""
    code = "import deb; print(*(one.name for one in deb.besides(['pyarrow', 'click'], deb.closure(['routerd']))))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "package", capture_output=True, text=True, check=False
    )
    if "PackageNotFoundError" in done.stderr:
        pytest.skip("install pyarrow to test the package of the flow log")
    assert done.stdout.split() == ["pyarrow"], done.stderr


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


def test_the_programs_may_be_read_by_processes_that_they_start(tree: Path) -> None:
    """multiprocessing runs the main module again in each, as `__mp_main__`: this must not run the command."""
    for program in ("routerd", "qdrouterd"):
        ran = runpy.run_path(str(tree / "opt/routerd/bin" / program), run_name="__mp_main__")
        assert callable(ran["main"])
