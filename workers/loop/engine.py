"""Loads the AMQP engine so that the pump finds its functions.

The engine is the one inside python-qpid-proton. Its extension module exports every ``pn_*`` symbol; loading
it with RTLD_GLOBAL before the pump makes them resolve at import. A missing one is an ImportError that names
it.
"""

import os
import sys


def load() -> None:
    """Make the engine's symbols global to this process. Must run before ``workers.loop.pump`` is imported."""
    before = sys.getdlopenflags()
    sys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)
    try:
        import cproton_ffi  # type: ignore[import-not-found]  # noqa: F401, PLC0415 - loading it is the point
    finally:
        sys.setdlopenflags(before)


def sasl_extended() -> bool:
    """Whether the engine was built with Cyrus SASL: without it there are ANONYMOUS and EXTERNAL only."""
    import cproton_ffi  # noqa: PLC0415 - asked for only where SASL is configured

    return bool(cproton_ffi.lib.pn_sasl_extended())
