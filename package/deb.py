"""Make Debian packages of what `make build` has installed: routerd, and one for each of its extras in `BESIDES`.

    .venv/bin/python package/deb.py --wheel FILE [--version V] [--compress xz] [--only routerd] FOLDER

/opt/routerd becomes a virtual environment of the distribution's python3: the wheel with the engine built in, and the
installed distributions that the wheel requires, file by file. Nothing is fetched. DEBFULLNAME and DEBEMAIL of the
environment name the maintainer.
"""

import argparse
import compileall
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Container, Iterable, Iterator
from email.utils import formatdate
from hashlib import md5
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Final
from zipfile import ZipFile

import man
from click.shell_completion import get_completion_class
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).resolve().parents[1]
HERE: Final = ROOT / "package"
PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
NEXT: Final = f"{sys.version_info.major}.{sys.version_info.minor + 1}"
HOME: Final = "opt/routerd"
SITE: Final = f"{HOME}/lib/python{PYTHON}/site-packages"
NOT_NEEDED: Final = {"INSTALLER", "REQUESTED", "direct_url.json"}
SCRIPT: Final = """#!/{home}/bin/python3
import sys

from {module} import main

if __name__ == "__main__":  # the clients of `routerd bench` are processes that read this file, too
    sys.exit(main())
"""
PROGRAMS: Final = {"routerd": "routerd.__main__", "qdrouterd": "routerd.qdrouterd"}
COMPLETIONS: Final = {
    "bash": "usr/share/bash-completion/completions/routerd",
    "zsh": "usr/share/zsh/vendor-completions/_routerd",
    "fish": "usr/share/fish/vendor_completions.d/routerd.fish",
}
UNITS: Final = "usr/lib/systemd/system"
COPIED: Final = {
    "systemd/routerd.service": f"{UNITS}/routerd.service",
    "systemd/routerd@.service": f"{UNITS}/routerd@.service",
    "systemd/routerd.socket": f"{UNITS}/routerd.socket",
    "systemd/routerd-pipeline.service": f"{UNITS}/routerd-pipeline.service",
    "systemd/routerd-pipeline.timer": f"{UNITS}/routerd-pipeline.timer",
    "systemd/routerd-stream.service": f"{UNITS}/routerd-stream.service",
    "package/routerd.socket.conf": f"{UNITS}/routerd.socket.d/10-sample.conf",
    "systemd/sysusers.conf": "usr/lib/sysusers.d/routerd.conf",
    "systemd/tmpfiles.conf": "usr/lib/tmpfiles.d/routerd.conf",
    "package/routerd.conf": "etc/routerd/routerd.conf",
    "package/logrotate": "etc/logrotate.d/routerd",
    "package/lintian-overrides": "usr/share/lintian/overrides/routerd",
    "CONTRIBUTING.md": "usr/share/doc/routerd/CONTRIBUTING.md",
    "README.md": "usr/share/doc/routerd/README.md",
    "SECURITY.md": "usr/share/doc/routerd/SECURITY.md",
}
WHO: Final = "{} <{}>".format(
    os.environ.get("DEBFULLNAME", "routerd developers"), os.environ.get("DEBEMAIL", "routerd@localhost")
)
CHANGES: Final = "{name} ({version}) unstable; urgency=medium\n\n  * See docs/changelog.md.\n\n -- {who}  {date}\n"
ABOUT: Final = """Package: {name}
Version: {version}
Architecture: {architecture}
Maintainer: {who}
Installed-Size: {size}
Depends: {depends}
{more}Section: net
Priority: optional
Description: {summary}
{description}
"""
DESCRIBED: Final = {
    "routerd": (
        "message router for AMQP 1.0",
        " routerd passes messages between AMQP 1.0 clients and stores none of them. It\n"
        " uses processes where qdrouterd uses threads, so a crash ends one process and\n"
        " not the router. It reads an existing qdrouterd.conf.",
    ),
    "routerd-flowlog": (
        "flow log of the message router routerd",
        " The flow log has a row for every delivery in Parquet files. This package adds\n"
        " what writes them, pyarrow, to the environment of routerd.",
    ),
    "routerd-tracing": (
        "tracing by the message router routerd",
        " The router sends spans of sampled traces to an OpenTelemetry collector. This\n"
        " package adds what writes them, opentelemetry-proto, to the environment of\n"
        " routerd.",
    ),
}
BESIDES: Final = {"routerd-flowlog": ["pyarrow"], "routerd-tracing": ["opentelemetry-proto"]}  # distributions


def main() -> None:
    """Make the packages and print their names."""
    options = argparse.ArgumentParser()
    options.add_argument("--wheel", type=Path, required=True)
    options.add_argument("--version", default=made_version())
    options.add_argument("--compress", default="gzip", choices=["gzip", "xz", "none"])
    options.add_argument("--only", choices=list(DESCRIBED))
    options.add_argument("folder", type=Path)
    given = options.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    needed = closure(["routerd"])
    for name in [given.only] if given.only else DESCRIBED:
        with tempfile.TemporaryDirectory() as folder:
            tree = Path(folder) / "tree"
            (tree / SITE).mkdir(parents=True)
            if name == "routerd":
                fill(tree, given.wheel, needed.values())
            else:
                for one in besides(BESIDES[name], needed):
                    copy(one, tree / SITE)
            print(pack(tree, name, given))


def made_version() -> str:
    """Return the project's version; one that is not released sorts before it, by number of commits."""
    from routerd.machine.version import commit, version  # noqa: PLC0415  with --version, git need not know

    counted = subprocess.run(
        ["git", "-C", ROOT, "rev-list", "--count", "HEAD"], capture_output=True, text=True, check=False
    )
    return f"{version()}~{counted.stdout.strip() or 0}.{commit().replace('-', '.')}"


def closure(names: list[str]) -> dict[str, Distribution]:
    """Return the installed distributions that these require, themselves included but for routerd, by name."""
    found: dict[str, Distribution] = {}
    while names:
        one = distribution(names.pop())
        name = canonicalize_name(one.name)
        if name not in found:
            found[name] = one
            wanted = map(Requirement, one.requires or ())
            names += [each.name for each in wanted if each.marker is None or each.marker.evaluate({"extra": ""})]
    found.pop("routerd", None)
    return found


def besides(names: list[str], needed: Container[str]) -> list[Distribution]:
    """Return the installed distributions that these require, themselves included, but for those needed anyway."""
    return [one for name, one in closure(names).items() if name not in needed]


def fill(tree: Path, wheel: Path, needed: Iterable[Distribution]) -> None:
    """Lay out the package routerd."""
    with ZipFile(wheel) as packed:
        packed.extractall(tree / SITE)
    for one in needed:
        copy(one, tree / SITE)
    programs = tree / HOME / "bin"
    programs.mkdir()
    (programs / "python3").symlink_to("/usr/bin/python3")
    (programs / "python").symlink_to("python3")
    number = ".".join(map(str, sys.version_info[:3]))
    (tree / HOME / "pyvenv.cfg").write_text(
        f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {number}\n"
    )
    for name, module in PROGRAMS.items():
        (programs / name).write_text(SCRIPT.format(home=HOME, module=module))
        (programs / name).chmod(0o755)
    (tree / "usr/bin").mkdir(parents=True)
    (tree / "usr/bin/routerd").symlink_to(f"/{HOME}/bin/routerd")
    for source, place in COPIED.items():
        put(tree / place, ROOT / source)
    programs = [file.name for file in (ROOT / "docs").glob("*.py")]  # the examples are for readers
    ignored = shutil.ignore_patterns("__*", *programs)
    shutil.copytree(ROOT / "docs", tree / "usr/share/doc/routerd/docs", ignore=ignored)
    document(tree)


def document(tree: Path) -> None:
    """Make manual pages and completion from the command line."""
    from routerd.__main__ import main as routerd  # noqa: PLC0415  what is installed here
    from routerd.machine.version import version  # noqa: PLC0415  the same

    pages = tree / "usr/share/man/man1"
    pages.mkdir(parents=True)
    for file, text in man.pages(routerd, "routerd", version()):
        (pages / f"{file}.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    for shell, place in COMPLETIONS.items():
        found = get_completion_class(shell)
        assert found is not None
        (tree / place).parent.mkdir(parents=True)
        (tree / place).write_text(found(routerd, {}, "routerd", "_ROUTERD_COMPLETE").source())


def put(place: Path, source: Path) -> None:
    """Copy a file, and make the folder that it is in."""
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, place)


def copy(one: Distribution, site: Path) -> None:
    """Copy an installed distribution, without its programs and what pip notes of it."""
    for file in one.files or ():
        if ".." not in file.parts and file.suffix != ".pyc" and file.name not in NOT_NEEDED:
            put(site / file, Path(str(one.locate_file(file))))


def pack(tree: Path, name: str, given: argparse.Namespace) -> Path:
    """Compile the Python files of a tree, describe it, and make the package."""
    architecture = output("dpkg", "--print-architecture").strip()
    moment = int(os.environ.get("SOURCE_DATE_EPOCH") or output("git", "-C", ROOT, "log", "-1", "--format=%ct") or 0)
    libraries = stripped(tree) if name == "routerd" else []
    notes = tree / "usr/share/doc" / name
    notes.mkdir(parents=True, exist_ok=True)
    (notes / "copyright").write_text(copyright_of(tree))
    changes = CHANGES.format(name=name, version=given.version, who=WHO, date=formatdate(moment))
    (notes / "changelog.gz").write_bytes(gzip.compress(changes.encode(), mtime=0))
    stamp(tree, moment)
    compileall.compile_dir(tree / HOME, quiet=1, stripdir=str(tree), prependdir="/", workers=2)
    stamp(tree, moment)
    control = tree / "DEBIAN"
    control.mkdir()
    files = [file for file in sorted(tree.rglob("*")) if file.is_file() and not file.is_symlink()]
    summary, description = DESCRIBED[name]
    about = ABOUT.format(
        name=name, who=WHO, version=given.version, architecture=architecture, summary=summary, description=description,
        size=sum(file.stat().st_size for file in files) // 1024,
        depends=", ".join(depends(name, given.version, libraries)),
        more="Recommends: logrotate\nSuggests: routerd-flowlog, routerd-tracing\n" if name == "routerd" else "",
    )  # fmt: skip
    (control / "control").write_text(about)
    (control / "md5sums").write_text(
        "".join(f"{md5(file.read_bytes()).hexdigest()}  {file.relative_to(tree)}\n" for file in files)  # noqa: S324  dpkg's
    )
    if name == "routerd":
        (control / "conffiles").write_text("".join(f"/{place}\n" for place in COPIED.values() if place[:4] == "etc/"))
        for script in (HERE / "debian").iterdir():
            put(control / script.name, script)
            (control / script.name).chmod(0o755)
    made: Path = given.folder / f"{name}_{given.version}_{architecture}.deb"
    packing = ["dpkg-deb", "--root-owner-group", f"-Z{given.compress}", "--build", tree, made]
    subprocess.run(packing, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"SOURCE_DATE_EPOCH": str(moment)})
    return made


def stripped(tree: Path) -> list[Path]:
    """Return the native libraries of a tree, without what only their makers need."""
    libraries = sorted((tree / HOME).rglob("*.so"))
    # Ours name a folder of the interpreter that compiled them, which is at another place here.
    ours = [library for library in libraries if library.is_relative_to(tree / SITE / "routerd")]
    subprocess.run(["chrpath", "-d", *ours], capture_output=True, check=False)  # it fails where there is nothing to do
    subprocess.run(["strip", "--strip-unneeded", *libraries], check=True)
    return libraries


def depends(name: str, version: str, libraries: list[Path]) -> Iterator[str]:
    """Yield what a package needs: Python, the libraries that the native code is linked with, and who makes the user."""
    if name != "routerd":
        yield f"routerd (= {version})"
        return
    yield f"python3 (>= {PYTHON}~)"
    yield f"python3 (<< {NEXT}~)"
    yield "libsasl2-modules"
    yield "systemd | systemd-standalone-sysusers"
    yield "systemd | systemd-standalone-tmpfiles"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "debian").mkdir()
        (Path(folder) / "debian/control").write_text("Source: routerd\n\nPackage: routerd\nArchitecture: any\n")
        command = ["dpkg-shlibdeps", "-O", *(f"-e{library}" for library in libraries)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    found = re.search(r"shlibs:Depends=(.*)", done.stdout)
    if found is None:
        sys.exit(f"dpkg-shlibdeps does not find the libraries of the native code: {done.stderr}")
    yield from found[1].split(", ")


def copyright_of(tree: Path) -> str:
    """Return the licence of routerd, and the names and licences of the distributions in the package."""
    lines = ["routerd is licensed under the Apache License 2.0: /usr/share/common-licenses/Apache-2.0\n"]
    for about in sorted(tree.rglob("*.dist-info/METADATA")):
        one = Distribution.at(about.parent)
        said = one.metadata.get("License-Expression") or (one.metadata.get("License") or "").split("\n")[0]
        kinds = [
            kind.rpartition(" :: ")[2] for kind in one.metadata.get_all("Classifier") or () if "License ::" in kind
        ]
        lines.append(f"{one.name} {one.version}: {said or ', '.join(kinds)}; {about.parent.relative_to(tree)}")
    return "\n".join(lines) + "\n"


def stamp(tree: Path, moment: int) -> None:
    """Give all files the time of the commit, and modes that do not depend on who packs."""
    for one in [tree, *tree.rglob("*")]:
        if not one.is_symlink():
            one.chmod(0o755 if one.is_dir() or one.stat().st_mode & 0o100 else 0o644)
        os.utime(one, (moment, moment), follow_symlinks=False)


def output(*command: str | Path) -> str:
    """Return what a command prints; it must succeed."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
