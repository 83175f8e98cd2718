"""What `hakmem export` serves to Prometheus: the processes that are there when it asks, as one
document in which each sample has the labels of its process."""

import ipaddress
import re
import sys
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET6
from typing import Any

from hakmem.errors import LabError
from hakmem.live import processes
from hakmem.live.processes import Answer, Found

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
END = "# EOF\n"
SILENT = "hakmem_export_silent_processes"
# The lines that hakmem writes. Any process may answer under its name, but gets no other line
# through.
ABOUT = re.compile(rf"# (TYPE|UNIT|HELP) ((?!{SILENT})hakmem(?:_[a-z0-9_]+)?)(?: [ -~]*)?")
LABEL = r'(?!pid=|command=)[a-z_]+="[^"\\{}\x00-\x1f\x7f-\x9f]*"'
SAMPLE = re.compile(rf"((?!{SILENT})hakmem_[a-z0-9_]+)(?:\{{({LABEL})\}})?( -?[0-9]+(?:\.[0-9]+)?)")


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def labelled(sample: re.Match[str], process: Answer) -> str:
    own = f'pid="{process.pid}",command="{escaped(process.command)}"'
    return f"{sample[1]}{{{own}{',' + sample[2] if sample[2] else ''}}}{sample[3]}"


def merged(processes: Iterable[Answer]) -> str:
    """The families in the order of their first lines, each with its first TYPE, UNIT and HELP."""
    families: dict[str, tuple[dict[str, str], list[str]]] = {}
    for process in processes:
        family = None
        for line in process.text.splitlines():
            if about := ABOUT.fullmatch(line):
                family = families.setdefault(about[2], ({}, []))
                family[0].setdefault(about[1], line)
            elif family and (sample := SAMPLE.fullmatch(line)):
                family[1].append(labelled(sample, process))
    lines = [line for about, samples in families.values() for line in (*about.values(), *samples)]
    return "".join(f"{line}\n" for line in lines) + END


def as_text_format(page: str) -> str:
    """The page in Prometheus's text format 0.0.4, for readers of only that, such as the textfile
    collector of node_exporter: families have their samples' names, and there are no units."""
    suffixes = {"counter": "_total", "info": "_info"}
    lines, suffix = [], ""
    for line in page.splitlines():
        about = re.match(r"# (\w+) ?(\S*) ?(.*)", line)
        if about is None:
            lines.append(line)
            continue
        what, name, rest = about.groups()
        if what == "TYPE":
            suffix = suffixes.get(rest, "")
            rest = "gauge" if rest == "info" else rest
        if what in ("TYPE", "HELP"):
            lines.append(f"# {what} {name}{suffix} {rest}")
    return "".join(f"{line}\n" for line in lines)


PAGE = "/metrics"


def whole(answer: Answer) -> Answer | None:
    """The answer; None where it is cut off, or not hakmem's."""
    return answer if answer.text.endswith(END) else None


def running() -> Found[Answer]:
    return processes.found("openmetrics", whole)


def document(found: Found[Answer]) -> str:
    """The page, and how many gave no answer, so that it is not taken for complete."""
    about = f"# TYPE {SILENT} gauge\n# HELP {SILENT} processes on hakmem that gave no answer\n"
    page = merged(found.here).removesuffix(END)
    return f"{page}{about}{SILENT} {found.silent}\n{END}"


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD of the one page."""

    server_version = "hakmem"
    sys_version = ""
    timeout = 10  # seconds for a client that sends no request

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != PAGE:
            self.send_error(404, f"There is only {PAGE}")
            return
        body = document(running()).encode()
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *unused: object) -> None:
        """Logs nothing: Prometheus asks every few seconds."""


class Server(ThreadingHTTPServer):
    def handle_error(self, *request: Any) -> None:
        """Ignores a client that hangs up before the end: that is no error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(*request)


class Server6(Server):
    address_family = AF_INET6


def parse_address(text: str) -> tuple[str, int]:
    """HOST:PORT, [HOST]:PORT for IPv6; LabError for anything else."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535 or (":" in host) != (host[:1] == "["):
        raise LabError(
            f"--listen takes HOST:PORT, such as 127.0.0.1:9712 or [::1]:9712, not {text}"
        )
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def server(host: str, port: int) -> Server:
    """A server that listens; its address is in `server_address`, with a free port for port 0.
    LabError where it cannot listen."""
    try:
        return (Server6 if ":" in host else Server)((host, port), Handler)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "no such host"
        raise LabError(f"--listen {host}:{port}: {why}") from None
