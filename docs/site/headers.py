"""The C++ reference: a page for every public header, from its declarations and their comments.

The headers are written to be read: a comment above each declaration, shapes and units beside each
member. So a page shows a struct as the header has it, as MuJoCo's reference does, with an anchor
and an entry of the index for everything that has a name. The reader knows no more of C++ than where
a declaration ends; the code is formatted by clang-format, and what it does not understand is an
error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Declaration:
    comment: str  # that stands above it
    code: str

    @property
    def name(self) -> str:
        """What it declares; overloads have the same."""
        head = re.split(r"[{;]", re.sub(r"\[\[\w+\]\]|//.*", "", self.code), maxsplit=1)[0]
        found = re.match(r"\s*(?:enum class|enum|struct|class|using)\s+(\w+)", head)
        found = found or re.search(r"([\w:~]+|operator\S+)\s*\(", head)
        found = found or re.search(r"(\w+)\s*(?:=|$)", head.strip())
        if not found:
            raise ValueError(f"no name in {self.code!r}")
        return found[1]

    @property
    def is_forward(self) -> bool:
        return bool(re.fullmatch(r"(?:struct|class)\s+\w+;", self.code.strip()))


def _ends(text: str, begin: int) -> int:
    """Where the declaration that begins there ends: after its ; or its closing brace."""
    depth, at = 0, begin
    while at < len(text):
        if text.startswith("//", at):
            at = text.index("\n", at)
            continue
        if text[at] == '"':
            at = text.index('"', at + 1)
        depth += {"{": 1, "(": 1, "}": -1, ")": -1}.get(text[at], 0)
        if depth == 0 and text[at] == ";":
            return at + 1
        # an inline function
        if depth == 0 and text[at] == "}" and not re.match(r"\s*[;,=)]", text[at + 1 :]):
            return at + 1
        at += 1
    raise ValueError(f"a declaration does not end: {text[begin : begin + 80]!r}")


def read(path: Path) -> tuple[str, list[Declaration]]:
    """What the header is for, and what it declares in namespace diffmj."""
    text = path.read_text()
    intro = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        intro.append(line[2:].strip())
    body = re.search(r"^namespace diffmj \{\n(.*)^\}  // namespace diffmj$", text, re.S | re.M)
    declarations: list[Declaration] = []
    if body:
        inside, at, comment = body[1], 0, []
        while at < len(inside):
            line = inside[at : inside.index("\n", at)]
            if not line.strip():
                comment = []
                at += len(line) + 1
            elif line.startswith("//"):
                comment.append(line[2:].removeprefix(" "))
                at += len(line) + 1
            elif line.startswith("#"):
                at += len(line) + 1
            else:
                end = _ends(inside, at)
                rest = inside[end : inside.index("\n", end)]  # a comment behind it
                declarations.append(Declaration("\n".join(comment), inside[at:end] + rest))
                at = end + len(rest) + 1
                # declarations that follow without a blank line share the comment
        merged: list[Declaration] = []
        for x in declarations:
            if not x.is_forward:
                merged.append(x)
        declarations = merged
    return "\n".join(intro), declarations


def _prose(comment: str) -> str:
    """A comment as Markdown: formulas, which are indented, stay as they are."""
    out, code = [], []
    for line in [*comment.split("\n"), ""]:
        if line.startswith("  ") and line.strip():
            code.append(line)
            continue
        if code:
            out.extend(["", "```text", *code, "```", ""])
            code = []
        # what looks like code to Markdown is code here
        line = re.sub(r"([<>*_\[\]$\\])", r"\\\1", line)
        out.append(line)
    return "\n".join(out).strip()


def page(path: Path) -> str:
    intro, declarations = read(path)
    name = f"diffmj/{path.name}"
    parts = [f"# {path.name}\n", _prose(intro), f"\n```cpp\n#include <{name}>\n```\n"]
    seen: dict[str, int] = {}
    for x in declarations:
        seen[x.name] = seen.get(x.name, 0) + 1
        if seen[x.name] == 1:
            parts.append(f"```{{index}} single: {x.name} (C++)\n```\n\n## {x.name}\n")
        if x.comment:
            parts.append(_prose(x.comment) + "\n")
        public = re.sub(r"\n( *) private:\n.*?(?=\n\1\};)", "", x.code.strip(), flags=re.S)
        parts.append(f"```cpp\n{public}\n```\n")
    return "\n".join(parts)


def summary(path: Path) -> str:
    """The first sentence of a header."""
    intro, _ = read(path)
    return _prose(re.split(r"(?<=[.!?])\s", intro.replace("\n", " "), maxsplit=1)[0])
