"""How log lines of the supervisor begin that commands look for."""

from typing import Final

RELOAD: Final = "Reload: "  # a line for each change, each mistake of the file, or that nothing has changed
ROLL_REFUSED: Final = "Rolling restart refused: "  # and why
