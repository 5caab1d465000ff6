"""Makes the source tree of the documentation site from the pages of the repository.

    stage.py FOLDER

The pages are Markdown that reads well where it is, on a code host or in an editor, and links to
files by their paths. Here they are copied to where the site has them, links are turned into those
of the site, equations are typeset, and what documents itself is added: headers, the command line,
examples.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import equations
import headers

ROOT = Path(__file__).parents[2]
SITE = Path(__file__).parent

# pages that are not in docs/, and those that have another name on the site
MOVED = {
    "README.md": "index.md",
    "docs/README.md": "index.md",
    "docs/derivations/README.md": "derivations/index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "STYLE.md": "style.md",
    "bench/results/README.md": "performance.md",
    "experiments/README.md": "experiments.md",
    "scenarios/README.md": "scenarios.md",
    "examples": "examples.md",
}
NOT_COPIED = ("README.md", "docs/README.md", "examples")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.S)


def pages() -> dict[str, str]:
    """Every page: its path in the repository to its path in the site."""
    out = dict(MOVED)
    for path in sorted((ROOT / "docs").rglob("*")):
        name = str(path.relative_to(ROOT))
        if path.suffix in (".md", ".ipynb") and SITE not in path.parents and name not in out:
            out[name] = name.removeprefix("docs/")
    return out


class Stage:
    def __init__(self, folder: Path):
        self.folder = folder
        self.pages = pages()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def link(self, page: str, at: str, target: str) -> str | None:
        """Where a link of a page leads to in the site; None if the site has no such place."""
        if target.startswith(("http:", "https:", "mailto:", "#")):
            return target
        path, _, anchor = target.partition("#")
        resolved = os.path.normpath(os.path.join(os.path.dirname(page), path))
        if not (ROOT / resolved).exists():
            raise FileNotFoundError(f"{page}: {target} leads nowhere")
        if (ROOT / resolved).is_dir() and f"{resolved}/README.md" in self.pages:
            resolved = f"{resolved}/README.md"
        if resolved in self.pages:
            place = self.pages[resolved]
        elif (ROOT / resolved).is_file():
            # a page that the site does not have is shown as it is
            place = f"files/{resolved}" + (".txt" if resolved.endswith(".md") else "")
            (self.folder / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / resolved, self.folder / place)
        else:
            return None
        here = os.path.relpath(place, os.path.dirname(at) or ".")
        return here + (f"#{anchor}" if anchor else "")

    def linked(self, page: str, at: str, text: str) -> str:
        def replace(match: re.Match[str]) -> str:
            mark, words, target = match.groups()
            # a picture within a link
            words = LINK.sub(replace, words)
            place = self.link(page, at, target)
            return f"{mark}[{words}]({place})" if place else words

        parts = CODE.split(text)
        return "".join(x if i % 2 else LINK.sub(replace, x) for i, x in enumerate(parts))

    def copy(self, page: str, at: str) -> None:
        if page.endswith(".ipynb"):
            (self.folder / at).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / page, self.folder / at)
            return
        text = (ROOT / page).read_text()
        if page.startswith("docs/derivations/"):
            text = equations.typeset(text)
        self.write(at, self.linked(page, at, text))

    def command_line(self, program: list[str]) -> None:
        def help_of(*words: str) -> str:
            command = [*program, *words, "--help"]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            return f"```text\n{done.stdout.strip()}\n```\n"

        first = help_of()
        names = re.findall(r"^  (\w+) {2,}", first.partition("Subcommands:")[2], re.M)
        parts = ["# Command line\n", (SITE / "command_line.md").read_text(), first]
        for name in names:
            parts.append(f"## diffmj {name}\n\n{help_of(name)}")
        self.write("reference/command_line.md", "\n".join(parts))

    def files(self, program: list[str]) -> None:
        """Task and problem files, as the help of their commands shows them."""
        parts = [(SITE / "files.md").read_text()]
        for name, title in (("plan", "Task files"), ("identify", "Problem files")):
            command = [*program, name, "--help"]
            text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            begin = re.search(r"^A (?:task|problem) file[.;].*$", text, re.M)
            assert begin, text
            lines = text[begin.end() :].strip("\n").splitlines()
            toml = "\n".join(x.removeprefix("  ") for x in lines)
            parts.append(f"## {title}\n\n{begin[0]}\n\n```toml\n{toml}\n```\n")
        self.write("reference/files.md", "\n".join(parts))

    def theory(self) -> None:
        """The index of the derivations has them in its order."""
        text = (self.folder / "derivations/index.md").read_text()
        names = list(dict.fromkeys(re.findall(r"\]\((\w+)\.md\)", text)))
        tree = "\n".join(names)
        self.write("derivations/index.md", f"{text}\n```{{toctree}}\n:hidden:\n\n{tree}\n```\n")

    def cpp(self) -> None:
        paths = sorted((ROOT / "include/diffmj").glob("*.h"))
        rows = [f"| [{x.name}]({x.stem}.md) | {headers.summary(x)} |" for x in paths]
        names = "\n".join(x.stem for x in paths)
        self.write(
            "reference/cpp/index.md",
            (SITE / "cpp.md").read_text()
            + "\n| header | |\n| --- | --- |\n"
            + "\n".join(rows)
            + f"\n\n```{{toctree}}\n:hidden:\n\n{names}\n```\n",
        )
        for path in paths:
            self.write(f"reference/cpp/{path.stem}.md", headers.page(path))

    def examples(self) -> None:
        parts = [(SITE / "examples.md").read_text()]
        for path in sorted((ROOT / "examples").glob("[0-9]*")):
            language = {".py": "python", ".cc": "cpp"}[path.suffix]
            code = path.read_text().strip()
            parts.append(f"## {path.name}\n\n```{language}\n{code}\n```\n")
        self.write("examples.md", "\n".join(parts))

    def all(self, program: list[str]) -> None:
        for name in ("conf.py", "index.md", "_static", "reference"):
            source = SITE / name
            if source.is_dir():
                shutil.copytree(source, self.folder / name, dirs_exist_ok=True)
            else:
                shutil.copy(source, self.folder / name)
        for page, at in self.pages.items():
            if page not in NOT_COPIED:
                self.copy(page, at)
        shutil.copytree(ROOT / "docs/figures", self.folder / "figures", dirs_exist_ok=True)
        self.theory()
        self.command_line(program)
        self.files(program)
        self.cpp()
        self.examples()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    Stage(Path(sys.argv[1]).resolve()).all([sys.executable, "-m", "diffmj"])
