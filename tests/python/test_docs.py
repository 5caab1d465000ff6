"""Every link of the documentation leads somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "examples", "experiments", "scenarios", "bench", "tests/testdata")
PAGES = [*ROOT.glob("*.md"), *(x for folder in FOLDERS for x in (ROOT / folder).rglob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """Of the headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", x.lower()).replace(" ", "-") for x in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda x: str(x.relative_to(ROOT)))
def test_links(page):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    for link in LINK.findall(text):
        if link.startswith(("http:", "https:", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link}: no such file"
        if anchor:
            assert anchor in anchors(target), f"{link}: no such heading"


def test_code_in_the_house_style_is_of_the_tree():
    """Each block names a file, and its lines are lines of that file, in their order."""
    blocks = re.findall(r"```cpp\n// (\S+)\n(.*?)```", (ROOT / "STYLE.md").read_text(), re.DOTALL)
    assert len(blocks) > 8
    for path, code in blocks:
        lines = iter((ROOT / path).read_text().splitlines())
        for line in code.splitlines():
            assert any(line == x for x in lines), f"{path} has no line, or not there: {line}"


def test_examples_of_identification_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text, _, _ = (ROOT / "docs" / "identification.md").read_text().partition("## Beside mujoco")
    names: dict = {}
    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(code, names)
    assert (tmp_path / "report.html").exists()
    assert names["fit"].values == pytest.approx({"elbow/damping[0]": 0.1, "bob/mass": 0.8}, 1e-3)
