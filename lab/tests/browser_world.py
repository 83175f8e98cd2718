"""Opens the laboratory's pages in headless Chromium; the checks that hold for each page."""

import re
import struct
import subprocess
import zlib
from dataclasses import dataclass
from pathlib import Path

import pytest
from standing import PATIENCE_S

LIGHT, NIGHT = (0xFB, 0xFA, 0xF7), (0x14, 0x17, 0x1A)
windows = pytest.mark.parametrize(
    ("width", "dark", "scripts"),
    [(1200, False, True), (400, True, True), (1200, True, False), (400, False, False)],
)
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --hide-scrollbars "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--enable-logging=stderr --virtual-time-budget=5000 "
    # Sandboxed frames stay in their page's process: the virtual clock waits for them only there.
    "--disable-features=IsolateSandboxedIframes --disable-site-isolation-trials"
)


LEAST_WINDOW = 500


@dataclass(frozen=True)
class Browser:
    program: str
    folder: Path

    def _run(self, page: Path, *flags: str) -> subprocess.CompletedProcess[str]:
        argv = [self.program, *FLAGS.split(), f"--user-data-dir={self.folder / 'profile'}"]
        return subprocess.run(
            [*argv, *flags, page.as_uri()],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        )

    def dom(self, page: Path) -> str:
        """The page's DOM after its scripts ran. Fails if any of them wrote to the console."""
        done = self._run(page, "--dump-dom", "--window-size=1300,900")
        assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
        return done.stdout

    def seen(self, page: Path, selector: str) -> int:
        """How many elements matching `selector` are visible when the page's scripts may not run.

        The page is in a sandboxed frame; the script that counts is in the page around the frame.
        """
        look = (
            f"const all = [...this.contentDocument.querySelectorAll('{selector}')];"
            "const some = all.filter((e) => e.checkVisibility());"
            "document.body.append(`seen ${some.length}.`);"
        )
        found = re.search(r"seen (\d+)\.", self.says(page, look, "allow-same-origin"))
        return int(found[1])

    def says(self, page: Path, script: str, sandbox: str | None = None, width: int = 1200) -> str:
        """What `script` appends to the page around the frame; `this` in it is the frame."""
        forbids = "" if sandbox is None else f'sandbox="{sandbox}"'
        around = self._frame(page, width, 3000, f'{forbids} onload="{script}"')
        done = self._run(around, "--dump-dom", "--allow-file-access-from-files")
        return done.stdout.rpartition("</iframe>")[2]

    def outside(self, page: Path, width: int, boxes: str) -> str:
        """Elements that overflow their box (`boxes`) on the right at this width; "" if none."""
        look = (
            "const page = this.contentDocument, found = [];"
            f"for (const box of page.querySelectorAll('{boxes}')) {{"
            "  const edge = box.getBoundingClientRect().right;"
            "  for (const e of box.querySelectorAll('*'))"
            "    if (e.getBoundingClientRect().right > edge + 1)"
            "      found.push(e.className + ' ' + e.textContent.slice(0, 40)); }"
            "document.body.append(`found ${found.join(', ')}.`);"
        )
        said = self.says(page, look, "allow-same-origin", width)
        return re.search(r"found (.*)\.", said, flags=re.DOTALL)[1]

    def picture(self, page: Path, width: int, dark: bool = False, scripts: bool = True) -> bytes:
        """A screenshot as PNG. The page is in a frame, since a window has a minimum width."""
        around = self._frame(page, width, 3000, "" if scripts else "sandbox")
        file = self.folder / "picture.png"
        flags = ["--force-dark-mode"] if dark else []
        size = max(width, LEAST_WINDOW), 3000
        self._run(around, "--window-size={},{}".format(*size), f"--screenshot={file}", *flags)
        data = file.read_bytes()
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", data[16:24]) == size
        return data

    def _frame(self, page: Path, width: int, height: int, attributes: str) -> Path:
        around = self.folder / "around.html"
        style = f"border:0;width:{width}px;height:{height}px"
        around.write_text(
            f'<body style="margin:0"><iframe src="{page.as_uri()}" style="{style}" {attributes}>'
            "</iframe></body>",
            encoding="utf-8",
        )
        return around


def corner(png: bytes) -> tuple[int, ...]:
    """Red, green and blue of the first pixel: its bytes are the same under every PNG filter."""
    parts, at = b"", 8
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            parts += png[at + 8 : at + 8 + size]
        at += 12 + size
    return tuple(zlib.decompress(parts)[1:4])


def expect_full(picture: bytes, dark: bool, least: int) -> None:
    """The corner has the page's background colour, and the PNG is larger than `least` bytes."""
    assert corner(picture) == (NIGHT if dark else LIGHT)
    assert len(picture) > least
