"""The command `hakmem`: how its failures become messages."""

import signal
import sys

from hakmem import errors
from hakmem.commands import app
from hakmem.errors import LabError
from hakmem.process import scratch


def main() -> None:
    # A polite end is an interrupt: what was started is stopped, and no half is written.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        scratch.sweep()
        try:
            app(prog_name="hakmem")
        finally:
            # Here, because a disk that is full of what was printed is an error like others.
            if sys.stdout is not None:
                sys.stdout.flush()
    except (LabError, KeyboardInterrupt, MemoryError, OSError) as error:
        message, status = errors.explain(error)
        if isinstance(error, OSError):
            errors.abandon_output()
        if message:
            print(f"hakmem: {message}", file=sys.stderr)
        sys.exit(status)
