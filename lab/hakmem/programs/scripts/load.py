"""Sends a file of requests to a server on a socket, and prints a digest of all it answered."""

import hashlib
import os
import select
import socket
import sys
import time
from pathlib import Path

PATIENCE_S = 30
END = b"*2\r\n$4\r\nECHO\r\n$3\r\nend\r\n", b"$3\r\nend\r\n"


def connect(path: str) -> socket.socket:
    """A connection, as soon as the server answers."""
    until = time.monotonic() + PATIENCE_S
    while True:
        link = socket.socket(socket.AF_UNIX)
        try:
            link.connect(path)
        except OSError:
            link.close()
            if time.monotonic() > until:
                sys.exit(f"no server after {PATIENCE_S} s")
            time.sleep(0.002)
        else:
            return link


def main() -> None:
    where, requests = sys.argv[1:]
    link = connect(where)
    link.setblocking(False)
    digest, size, tail = hashlib.sha256(), 0, b""
    with Path(requests).open("rb") as file:
        waiting = memoryview(b"")
        ended = False
        while not tail.endswith(END[1]):
            if not waiting and not ended:
                chunk = file.read(1 << 16)
                ended = not chunk
                waiting = memoryview(chunk or END[0])
            readable, writable, _ = select.select([link], [link] if waiting else [], [], PATIENCE_S)
            if not readable and not writable:
                sys.exit(f"the server was silent for {PATIENCE_S} s")
            if readable:
                answer = link.recv(1 << 18)
                if not answer:
                    sys.exit(f"the server hung up after {size} bytes of answers")
                digest.update(answer)
                size += len(answer)
                tail = (tail + answer)[-len(END[1]) :]
            if writable:
                waiting = waiting[link.send(waiting) :]
    print(size, digest.hexdigest())
    sys.stdout.flush()
    os._exit(0)


main()
