"""Users of Cyrus SASL in a database of the test's own: run as a program, because the library keeps its state.

python sasl_users.py FOLDER NAME=PASSWORD…: writes FOLDER/routerd.conf and the database it names.
"""

import ctypes
import ctypes.util
import os
import subprocess
import sys
from pathlib import Path

CONF_TYPE = 1  # SASL_PATH_TYPE_CONFIG
CREATE = 1  # SASL_SET_CREATE
GOOD_ENOUGH = (0, -12)  # SASL_OK; SASL_NOMECH or the like from mechanisms that keep secrets of their own


def make(folder: Path, **users: str) -> None:
    """Configuration and users for a router in `folder`."""
    pairs = [f"{name}={password}" for name, password in users.items()]
    subprocess.run([sys.executable, __file__, folder, *pairs], check=True)


def main(folder: Path, pairs: list[str]) -> None:
    database = folder / "users.sasldb"
    (folder / "routerd.conf").write_text(
        f"pwcheck_method: auxprop\nauxprop_plugin: sasldb\nsasldb_path: {database}\n"
        "mech_list: ANONYMOUS EXTERNAL PLAIN SCRAM-SHA-256\n"
    )
    sasl = ctypes.CDLL(ctypes.util.find_library("sasl2") or "libsasl2.so.2")
    sasl.sasl_set_path(CONF_TYPE, str(folder).encode())
    assert sasl.sasl_server_init(None, b"routerd") == 0
    for pair in pairs:
        name, _, password = pair.partition("=")
        connection = ctypes.c_void_p()
        made = sasl.sasl_server_new(b"amqp", None, None, None, None, None, 0, ctypes.byref(connection))
        assert made == 0, made
        secret = password.encode()
        done = sasl.sasl_setpass(connection, os.fsencode(name), secret, len(secret), None, 0, CREATE)
        assert done in GOOD_ENOUGH, (done, ctypes.c_char_p(sasl.sasl_errdetail))
    assert database.exists()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
