"""The AMQP engine, loaded so that the pump finds its functions.

The engine is part of python-qpid-proton, whose extension module exports every ``pn_*`` symbol. The module has
to be loaded with RTLD_GLOBAL before the pump. A missing symbol raises an ImportError that names it.
"""

import os
import sys


def load() -> None:
    """Make the engine's symbols global; to be called before ``workers.loop.pump`` is imported."""
    before = sys.getdlopenflags()
    sys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)
    try:
        import cproton_ffi  # type: ignore[import-not-found]  # noqa: F401, PLC0415 - loading it is the point
    finally:
        sys.setdlopenflags(before)


def sasl_extended() -> bool:
    """Return whether the engine has Cyrus SASL; without it, it only has ANONYMOUS and EXTERNAL."""
    import cproton_ffi  # noqa: PLC0415 - asked for only where SASL is configured

    return bool(cproton_ffi.lib.pn_sasl_extended())
