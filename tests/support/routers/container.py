"""A container with a real systemd: the host's programs, the project's units, and a driver that uses them."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.support.certificates import Authority

ROOT = Path(__file__).parents[3]
UNITS = ROOT / "systemd"
CACHE = Path(sys.prefix) / "systemd-container"  # in the virtual environment: it goes when that goes

TARGET = """[Unit]
Requires=basic.target driver.service
After=basic.target
AllowIsolate=yes
"""
DRIVER = """[Unit]
After=basic.target
[Service]
Type=oneshot
ExecStart=/opt/routerd/bin/python /opt/routerd/source/tests/support/programs/systemd_driver.py /opt/result
ExecStopPost=/bin/systemctl --no-block --force poweroff
StandardOutput=file:/opt/result/output
StandardError=file:/opt/result/output
TimeoutStartSec=300
"""
# The library beside the interpreter is the right one; the host may have another of that name.
WRAPPER = """#!/bin/sh
export LD_LIBRARY_PATH=/opt/python/lib PYTHONPATH=/opt/routerd/source:/opt/routerd/packages
exec {python} {arguments} "$@"
"""


def nspawn() -> str:
    """The program that starts the container; the test is skipped where there is none."""
    if os.geteuid() != 0:
        # the kernel lets only root make a container with a systemd of its own
        pytest.skip("a container with systemd needs root: run the tests as root")
    if not Path("/usr/lib/systemd/systemd").exists():
        # the units are for systemd, and a machine without it need not get one for the tests
        pytest.skip("install the Debian package systemd to test the units")
    found = shutil.which("systemd-nspawn", path=f"{os.environ['PATH']}:{CACHE}/usr/bin")
    if found is None and shutil.which("apt-get") and shutil.which("dpkg"):
        CACHE.mkdir(exist_ok=True)
        download = [shutil.which("apt-get") or "", "download", "-q", "systemd-container"]
        subprocess.run(download, cwd=CACHE, capture_output=True, check=False)
        for package in CACHE.glob("*.deb"):
            subprocess.run([shutil.which("dpkg") or "", "-x", package, CACHE], check=True)
        found = shutil.which("systemd-nspawn", path=f"{CACHE}/usr/bin")
    if found is None:
        # it is neither installed nor to be had from the registry, for instance offline
        pytest.skip("install the Debian package systemd-container to test the units")
    return found


def boot(folder: Path, drop_in: str) -> tuple[Path, str]:
    """Boot, let the driver do its work, and end. Returns the folder of its results, and what was printed."""
    program = nspawn()
    result = folder / "result"
    result.mkdir()
    units, programs, given = folder / "units", folder / "bin", folder / "given"
    for place in (given, units, programs, units / "routerd.service.d"):
        place.mkdir()
    (units / "rt.target").write_text(TARGET)
    (units / "driver.service").write_text(DRIVER)
    (units / "routerd.service.d" / "test.conf").write_text(drop_in)
    python = f"/opt/python/bin/{Path(sys.executable).resolve().name}"
    for name, arguments in (("python", ""), ("routerd", "-m routerd")):
        (programs / name).write_text(WRAPPER.format(python=python, arguments=arguments))
        (programs / name).chmod(0o755)
    Authority(given).issue("router", "/CN=router")  # no openssl.cnf stands in the container's own /etc
    bound = {
        Path(sys.base_prefix): "/opt/python",
        ROOT: "/opt/routerd/source",
        Path(sysconfig.get_path("platlib")): "/opt/routerd/packages",
        programs: "/opt/routerd/bin",
        given: "/opt/given",
        **{path: f"/etc/systemd/system/{path.name}" for path in units.iterdir()},
    }
    command = [
        program, "--register=no", "--keep-unit", "--private-network", "--volatile=yes", "-D", "/",
        f"--bind={result}:/opt/result", *(f"--bind-ro={source}:{place}" for source, place in bound.items()),
        "-b", "systemd.unit=rt.target", "systemd.firstboot=no",
        "systemd.mask=systemd-networkd-wait-online.service", "systemd.mask=network-online.target",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=330, check=False, stdin=subprocess.DEVNULL)
    return result, done.stdout + done.stderr
