"""The loader's own word that a library was loaded into the process that does the work."""

import os
import re
from dataclasses import replace
from pathlib import Path

from hakmem.process import scratch
from hakmem.process.sample import Process, Sample, take


def take_shown(blank: Sample, process: Process) -> Sample:
    """A sample, with an error where the library is not shown in the process that does the work.

    Of a job that is its worker; a user's command may become any program, so one is enough. hakmem
    leaves a proof of its own, the C library's allocator needs none, a benchmark tells by itself,
    and only the GNU loader can be asked. Asking costs time: such a sample is good for a trial, not
    for its figures.
    """
    path = process.library.path
    gnu = "CS_GNU_LIBC_VERSION" in os.confstr_names
    if process.own_account or process.expects_proof or path is None or not gnu:
        return take(blank, process)
    with scratch.folder("loader") as folder:
        says = {"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": f"{folder}/says"}
        sample = take(blank, replace(process, environment={**process.environment, **says}))
        told = [file.read_text(errors="replace") for file in folder.iterdir()]
    mark = f"calling init: {path}"
    if process.job is None:
        worker, shown = "it", any(mark in text for text in told)
    else:
        worker = process.job.worker or Path(process.argv[0]).name
        started = re.compile(rf"initialize program: (.*/)?{re.escape(worker)}$", re.MULTILINE)
        workers = [text for text in told if started.search(text)]
        shown = bool(workers) and all(mark in text for text in workers)
    if sample.error is None and not shown:
        why = "statically linked, or of another libc"
        said = f"{process.library.name} was not loaded into {worker}: is it {why}?"
        return replace(sample, error=said)
    return sample
