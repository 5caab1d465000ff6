"""Do the links within the built site lead to a page, and to a place on it?

    check_links.py FOLDER

Sphinx knows the links that it makes itself. This looks at what a reader gets: every href and src of
every page, without a network.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The places on a page, and where it links to."""

    def __init__(self, path: Path):
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


def broken(folder: Path) -> list[str]:
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html"))}
    out = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                out.append(f"{path.relative_to(folder)}: {link}: no such file")
            elif parts.fragment and target in pages and parts.fragment not in pages[target].ids:
                out.append(f"{path.relative_to(folder)}: {link}: no such place")
    return out


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = Path(sys.argv[1]).resolve()
    problems = broken(root)
    print(*problems, sep="\n")
    if problems or not any(root.rglob("*.html")):
        sys.exit(f"check_links: {len(problems)} links of {root} lead nowhere, or it has no page")
    print(f"check_links: all links within {root} lead somewhere")
