"""Failures as messages: what is wrong, what to do next, and the exit status of the command."""

import contextlib
import errno
import os
import sys

INTERRUPTED = 130


class LabError(Exception):
    """A failure the user can act on; `status` becomes the exit status of the command."""

    def __init__(self, message: str, status: int = 2) -> None:
        super().__init__(message)
        self.status = status


class Interrupted(LabError):
    """The user ended the command; the message says what is kept."""

    def __init__(self, message: str) -> None:
        super().__init__(message, status=INTERRUPTED)


def refusal(error: OSError) -> str:
    """What the system refused, in its words, and for which file."""
    said = error.strerror or str(error) or type(error).__name__
    named = isinstance(error.filename, str | bytes)
    what = os.fsdecode(error.filename) if named else "the system refused"
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return f"{what}: {said}" + (": free some space and repeat" if full else "")


def explain(error: BaseException) -> tuple[str, int]:
    """One line for the user, and the exit status; "" where nobody can read it any more."""
    if isinstance(error, LabError):
        return str(error), error.status
    if isinstance(error, KeyboardInterrupt):
        return "interrupted: nothing more was recorded, no file left half-written", INTERRUPTED
    if isinstance(error, BrokenPipeError):
        return "", 1  # the reader of a pipe, `head` for one, has seen enough
    if isinstance(error, MemoryError):
        return "out of memory: nothing of this was kept", 1
    assert isinstance(error, OSError)
    return refusal(error), 1


def abandon_output() -> None:
    """Redirects stdout to /dev/null, so that the interpreter does not try at its end to write what
    could not be written, and complain."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        descriptor = sys.stdout.fileno()
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
