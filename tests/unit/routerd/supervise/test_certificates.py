"""When certificates expire, and who is told."""

import logging
import os
import shutil
import ssl
import subprocess
import time
from base64 import b64encode
from pathlib import Path

import pytest

from routerd.config.entities.transport import SslProfile
from routerd.config.validity import SOON_SECONDS, expiry
from routerd.supervise.certificates import POLL_SECONDS, REPEAT_SECONDS, Certificates

DAY = 86400

needs_openssl = pytest.mark.skipif(not shutil.which("openssl"), reason="it makes certificates: install openssl")


def certificate(folder: Path, days: int) -> Path:
    """A file with one that is signed by itself."""
    file = folder / f"{days}.pem"
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(file)]
    made = ["openssl", "req", "-x509", *key, "-subj", "/CN=me", "-days", str(days), "-out", f"{file}.cert"]
    subprocess.run(made, check=True, capture_output=True)
    file.write_text(Path(f"{file}.cert").read_text() + file.read_text())
    return file


@needs_openssl
@pytest.mark.parametrize("days", [1, 365, 20_000])
def test_the_end_of_validity_is_found(tmp_path: Path, days: int) -> None:
    """Also in the years behind 2049, which are written in another way."""
    found = expiry(certificate(tmp_path, days).read_text())
    assert abs(found - time.time() - days * DAY) < 60


@pytest.mark.parametrize("text", ["", "nonsense", "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"])
def test_what_is_no_certificate_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="certificate"):
        expiry(text)


def test_a_certificate_that_has_become_a_pipe_holds_nobody_up(tmp_path: Path) -> None:
    """The supervisor looks at it once a minute; the process that uses the file reports what is wrong."""
    os.mkfifo(tmp_path / "pipe")
    found: list[int] = []
    certificates = Certificates(found.append)
    certificates.set([SslProfile(name="p", cert_file=str(tmp_path / "pipe"))])
    certificates.poll(0.0)
    assert found == [0]


@needs_openssl
def test_a_certificate_is_told_of_once_a_day_from_thirty_days_before_its_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And as an error when it has ended; one that is renewed is not told of."""
    file = certificate(tmp_path, 100)
    ends = expiry(file.read_text())
    wall, told = [ends - SOON_SECONDS - DAY], list[int]()
    watched = Certificates(told.append, lambda: wall[0])
    watched.set([SslProfile(name="p", cert_file=str(file)), SslProfile(name="q", cert_file="/none")])
    caplog.set_level(logging.INFO)
    watched.poll(0.0)
    assert (caplog.records, told) == ([], [int(ends)])
    wall[0] = ends - 10 * DAY
    watched.poll(1.0)
    assert not caplog.records
    for now in (POLL_SECONDS, 2 * POLL_SECONDS):
        watched.poll(now)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith("sslProfile p: its certificate expires in 10.0 days; renew it")
    assert str(file) in record.getMessage()
    wall[0] = ends - 7200
    watched.poll(POLL_SECONDS + REPEAT_SECONDS)
    assert "its certificate expires in 2.0 hours; renew it" in caplog.records[-1].getMessage()
    wall[0] = ends + 1
    watched.poll(POLL_SECONDS + 2 * REPEAT_SECONDS)
    assert caplog.records[-1].levelname == "ERROR"
    assert "has expired, so peers refuse the router" in caplog.records[-1].getMessage()
    watched.set([])
    watched.poll(POLL_SECONDS + 2 * REPEAT_SECONDS + 1)
    assert told[-1] == 0


def test_a_certificate_of_the_time_before_1970_has_expired(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It ended the supervisor: statistics have no negative numbers."""
    file = tmp_path / "old.pem"
    name, validity = b"\x30\x00", b"\x30\x1e\x17\x0d690101000000Z\x17\x0d691231235959Z"
    fields = b"\x02\x01\x01" + name + name + validity
    der = bytes((0x30, 2 + len(fields), 0x30, len(fields))) + fields
    file.write_text(f"-----BEGIN CERTIFICATE-----\n{b64encode(der).decode()}\n-----END CERTIFICATE-----\n")
    assert expiry(file.read_text()) == -1
    told: list[int] = []
    watched = Certificates(told.append)
    watched.set([SslProfile(name="p", cert_file=str(file))])
    watched.poll(0.0)
    assert told == [1]  # 0 would mean that there is none
    assert "has expired" in caplog.text


@needs_openssl
def test_a_certificate_that_openssl_reads_is_read_alike(tmp_path: Path) -> None:
    file = certificate(tmp_path, 30)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(file)
    (read,) = context.get_ca_certs()
    assert ssl.cert_time_to_seconds(str(read["notAfter"])) == expiry(file.read_text())
