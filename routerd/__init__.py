"""The supervisor of a router, its commands, configuration, exporter and recorder.

A package has our other packages and the AMQP engine in `routerd/lib`, where they overwrite and hide nothing of others:
whoever imports `routerd` finds them there, before any of the same name elsewhere. A checkout has no such folder.
"""

import os
import sys

_LIB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")
if os.path.isdir(_LIB) and _LIB not in sys.path:
    sys.path.insert(0, _LIB)
