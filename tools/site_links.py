"""Hooks for mkdocs: the README is the first page, decisions are listed, links out of docs/ treated.

A link from docs/ to another file of the tree becomes plain text, because that file is not on the
site. A link to a file that does not exist is an error, as mkdocs has it for links inside docs/.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?<!!)\[([^]]+)\]\((?!https?:|#)([^)#\s]*)(#[^)]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    text = (ROOT / "README.md").read_text(encoding="utf-8").replace("(docs/", "(./")
    files.append(File.generated(config, "index.md", content=text))
    decisions = sorted(Path(config["docs_dir"], "decisions").glob("*.md"))
    titles = [(path, path.read_text(encoding="utf-8").partition("\n")[0]) for path in decisions]
    listed = [f"- [{title.removeprefix('# ')}]({path.name})\n" for path, title in titles]
    text = "".join(["# Decisions\n\n", *listed])
    files.append(File.generated(config, "decisions/index.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    docs = Path(config["docs_dir"])
    here = (docs / page.file.src_uri).parent
    outside = ROOT if page.file.src_uri == "index.md" else here

    def of(match: re.Match[str]) -> str:
        path = (here / match[2]).resolve()
        if path.is_relative_to(docs) and path.is_file():
            return match[0]
        if path == docs / "decisions":
            return f"[{match[1]}]({match[2]}index.md)"
        if not path.exists() and not (outside / match[2]).exists():
            raise PluginError(f"{page.file.src_uri}: a link to {match[2]}, which is not there")
        return match[1]

    return LINK.sub(of, markdown)
