"""The AMQP engine, loaded so that the pump finds its functions.

The engine is part of python-qpid-proton, whose extension module exports every ``pn_*`` symbol. The module has
to be loaded with RTLD_GLOBAL before the pump. The data lane takes a place inside the engine's transport
(workers/transport/layers.c), so it needs names that no header of the engine declares.
"""

import ctypes
import os
from typing import Final

VERSION: Final = "0.40.0"
"""The version of python-qpid-proton with which the data lane works."""

PRIVATE: Final = (
    "pni_setup_layer",
    "pni_autodetect_layer",
    "amqp_header_layer",
    "amqp_write_header_layer",
    "amqp_read_header_layer",
    "amqp_layer",
    "sasl_header_layer",
    "sasl_write_header_layer",
    "sasl_read_header_layer",
    "sasl_layer",
    "ssl_layer",
    "pni_passthru_layer",
    "pni_transport_grow_capacity",
    "pn_do_error",
    "pn_transport_logger",
    "pni_logger_log_msg_frame",
)
"""What native bodies use of the engine and its headers do not declare."""


def load() -> None:
    """Make the engine's symbols global; to be called before ``workers.loop.pump`` is imported.

    Raises ImportError if the engine is missing or is another one than the data lane knows.
    """
    import cproton_ffi  # type: ignore[import-not-found]  # noqa: PLC0415 - loading it is the point

    library = ctypes.CDLL(cproton_ffi.__file__, os.RTLD_NOW | os.RTLD_GLOBAL)
    missing = [name for name in PRIVATE if not hasattr(library, name)]
    if missing:
        raise ImportError(
            f"the AMQP engine {cproton_ffi.__file__} has no {', '.join(missing)}; install python-qpid-proton {VERSION}"
        )


def sasl_extended() -> bool:
    """Return whether the engine has Cyrus SASL; without it, it only has ANONYMOUS and EXTERNAL."""
    import cproton_ffi  # noqa: PLC0415 - asked for only where SASL is configured

    return bool(cproton_ffi.lib.pn_sasl_extended())
