"""Debian packages of the tree as it is built, and a Debian in which they are installed."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from tests.support.routers.container import nspawn
from tests.support.tree import ROOT

ASKED = os.environ.get("ROUTERD_TEST_PACKAGES") == "1"  # what takes long is asked for
CACHE = Path(sys.prefix) / "debian-12"  # in the virtual environment: it goes when that goes
TOOLS = ("chrpath", "dpkg-deb", "dpkg-shlibdeps", "strip")
BASE = "systemd,systemd-sysv,dbus,python3,libsasl2-2,libsasl2-modules,libssl3,logrotate,iproute2,procps"


def wheel(folder: Path) -> Path:
    """The wheel of the checkout; it takes the extensions that are compiled in place."""
    copy = folder / "checkout"
    for name in ("core", "pipeline", "routerd", "shm", "workers"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "pyspark_routerd.py", "setup.py"):
        shutil.copy2(ROOT / file, copy)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-index", "--no-deps", "--no-build-isolation", "-w", folder]
    subprocess.run([*pip, copy], check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    return made


def changed(original: Path, folder: Path, file: str, old: str, new: str) -> Path:
    """A wheel in which one text is another: a later version of the program."""
    made = folder / original.name
    with ZipFile(original) as packed, ZipFile(made, "w", ZIP_DEFLATED) as packing:
        for name in packed.namelist():
            content = packed.read(name)
            if name == file:
                assert old.encode() in content
                content = content.replace(old.encode(), new.encode())
            packing.writestr(name, content)
    return made


def deb(source: Path, version: str, folder: Path) -> Path:
    """The package routerd of a wheel. The test is skipped where Debian's tools are missing."""
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        # packages for Debian are made on Debian
        pytest.skip(f"install the Debian packages dpkg-dev, binutils and chrpath: {', '.join(missing)} are missing")
    command = [
        sys.executable,
        ROOT / "package" / "deb.py",
        "--wheel",
        source,
        "--version",
        version,
        "--only",
        "routerd",
    ]
    environment = os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}
    done = subprocess.run(
        [*command, "--compress", "none", folder], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def debian() -> Path:
    """A fresh Debian 12 with what the package depends on, made once; the test is skipped where none can be made."""
    nspawn()
    if not (CACHE / "etc" / "debian_version").exists():
        tool = shutil.which("debootstrap")
        if tool is None:
            # it is neither installed nor to be had from the registry, for instance offline
            pytest.skip("install the Debian package debootstrap to test the service's packages")
        shutil.rmtree(CACHE, ignore_errors=True)
        making = CACHE.with_suffix(".making")
        shutil.rmtree(making, ignore_errors=True)
        command = [tool, "--variant=minbase", f"--include={BASE}", "bookworm", making]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        making.rename(CACHE)
    return CACHE


def boot(folder: Path, packages: Path) -> tuple[Path, str]:
    """Boot that Debian, let the driver do its work with the packages, and end; nothing that is written there stays.

    Returns the folder of the driver's results, and what was printed.
    """
    result = folder / "result"
    result.mkdir()
    unit = folder / "driver.service"
    unit.write_text(DRIVER)
    bound = {
        ROOT / "tests" / "support" / "programs": "/srv/programs",
        Path(sysconfig.get_path("platlib")): "/srv/modules",
        unit: "/etc/systemd/system/driver.service",
    }
    command = [
        nspawn(), "--register=no", "--keep-unit", "--private-network", "--volatile=overlay", "-D", debian(),
        f"--bind={result}:/srv/result", f"--bind={packages}:/root/packages",
        *(f"--bind-ro={source}:{place}" for source, place in bound.items()),
        "-b", "systemd.unit=multi-user.target", "systemd.wants=driver.service", "systemd.firstboot=no",
        "systemd.mask=systemd-networkd-wait-online.service", "systemd.mask=network-online.target",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=330, check=False, stdin=subprocess.DEVNULL)
    return result, done.stdout + done.stderr


DRIVER = """[Unit]
After=basic.target
[Service]
Type=oneshot
Environment=PYTHONPATH=/srv/modules
ExecStart=/usr/bin/python3 /srv/programs/deb_driver.py /srv/result
ExecStopPost=/bin/systemctl --no-block --force poweroff
StandardOutput=file:/srv/result/output
StandardError=file:/srv/result/output
TimeoutStartSec=300
"""
