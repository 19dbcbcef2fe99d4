"""A certificate whose subject is spelt as no tool spells it names nobody, or who is meant, and never somebody else."""

from __future__ import annotations

import ssl
import struct
from typing import TYPE_CHECKING

import pytest
from proton import symbol

from shm.contract.payloads import ConnectionOpened
from shm.contract.security import TlsSetup
from tests.support.beds.door import Client, Door
from tests.support.certificates import Certificate, openssl
from tests.support.clients.sasl_frames import INIT, MECHANISMS, OUTCOME, SASL_HEADER, sasl
from tests.support.clients.wire import AMQP_HEADER, CLOSE, OPEN, described, frame

if TYPE_CHECKING:
    from pathlib import Path

UTF8, PRINTABLE, T61, BMP, BITS = 12, 19, 20, 30, 3
CN, ORGANISATION = b"\x55\x04\x03", b"\x55\x04\x0a"
ECDSA_SHA256 = b"\x2a\x86\x48\xce\x3d\x04\x03\x02"


def der(tag: int, *parts: bytes) -> bytes:
    inside = b"".join(parts)
    size = len(inside)
    head = bytes([size]) if size < 128 else b"\x82" + struct.pack(">H", size)
    return bytes([tag]) + head + inside


def certificate(folder: Path, fields: list[tuple[bytes, int, bytes]]) -> Certificate:
    """A certificate that vouches for itself, whose subject has these fields: type, tag of ASN.1, octets."""
    made = Certificate(folder / "made.pem", folder / "made-key.pem")
    curve = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1")
    openssl("genpkey", *curve, "-out", made.key)
    openssl("pkey", "-in", made.key, "-pubout", "-outform", "DER", "-out", folder / "public")
    name = der(0x30, *(der(0x31, der(0x30, der(6, kind), der(tag, octets))) for kind, tag, octets in fields))
    algorithm = der(0x30, der(6, ECDSA_SHA256))
    times = der(0x30, der(0x17, b"200101000000Z"), der(0x18, b"20990101000000Z"))
    head = (der(0xA0, der(2, b"\2")), der(2, b"\1"), algorithm, name, times, name)
    said = der(0x30, *head, (folder / "public").read_bytes())
    (folder / "said").write_bytes(said)
    openssl("dgst", "-sha256", "-sign", made.key, "-out", folder / "signature", folder / "said")
    whole = der(0x30, said, algorithm, der(3, b"\0", (folder / "signature").read_bytes()))
    made.certificate.write_text(ssl.DER_cert_to_PEM_cert(whole))
    return made


def user(folder: Path, fields: list[tuple[bytes, int, bytes]], uid_format: str = "n") -> str | None:
    """Whom the core hears of when the owner of that certificate logs in; None: it is closed with an error."""
    it = certificate(folder, fields)
    files = str(it.certificate), str(it.key)
    tls = TlsSetup("tls", *files, ca_cert_file=files[0], uid_format=uid_format, required=True, verify=True)
    door = Door("subjects", tls, "EXTERNAL")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(*files)
    client = Client(door, door.dial(), context)
    try:
        client.secure()
        client.write(SASL_HEADER + sasl(INIT, symbol("EXTERNAL"), b""))
        client.take(8)
        client.frames(MECHANISMS, OUTCOME)
        client.write(AMQP_HEADER + frame(0, described(OPEN, "peer")))
        assert client.take(8) == AMQP_HEADER
        client.frames(OPEN)
        if not any(isinstance(one, ConnectionOpened) for one in door.heard):
            assert client.frames(CLOSE)[0][0] is not None
            return None
        return door.hear(ConnectionOpened)[0].user
    finally:
        client.socket.close()
        door.end()


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ([(CN, UTF8, b"alice")], "alice"),
        ([(CN, PRINTABLE, b"alice"), (ORGANISATION, UTF8, b"Here"), (CN, UTF8, b"bob")], "alice"),
        ([(CN, UTF8, "köln".encode())], "köln"),
        ([(CN, T61, b"k\xf6ln")], "köln"),
        ([(CN, BMP, "köln".encode("utf-16-be"))], "köln"),
        ([(CN, UTF8, b'a,b+"c\\<>; ')], 'a,b+"c\\<>; '),
        ([(CN, BMP, b"alice\0")], "\u616c\u6963\u6500"),
        ([(CN, UTF8, b"alice\0.evil")], None),
        ([(CN, T61, b"alice\0.evil")], None),
        ([(CN, UTF8, b"alice\n")], None),
        ([(CN, BITS, b"\0alice")], None),
    ],
)
def test_a_user_is_all_of_its_field(tmp_path: Path, fields: list[tuple[bytes, int, bytes]], named: str | None) -> None:
    """The engine ends a field at a NUL, and reads octets of any encoding as UTF-8."""
    assert user(tmp_path, fields) == named
