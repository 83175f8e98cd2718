"""The file of a command that somebody has asked for, or what is wrong with its name."""

import os
import shutil
from pathlib import Path

from hakmem.errors import LabError


def program(name: str) -> str:
    """Where the command is; LabError, with the shell's status, where none can be run."""
    found = shutil.which(name)
    if found is not None:
        return found
    if os.sep in name and Path(name).exists():
        why = "it is a folder" if Path(name).is_dir() else "it is no executable file (chmod +x)"
        raise LabError(f"cannot run {name}: {why}", status=126)
    raise LabError(f"command not found: {name}", status=127)
