"""What the documentation site is made with, without Sphinx: equations, headers, links."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SITE = ROOT / "docs" / "site"


def load(name: str):
    """A module of the site, which is not a package."""
    spec = importlib.util.spec_from_file_location(name, SITE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


equations, headers, check_links = load("equations"), load("headers"), load("check_links")


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("z_bar += λᵀ g", r"\bar{z}\,\mathrel{{+}{=}}\,λ^{\mathsf{T}}\,g"),
        ("h Σ_j<i A_ij k_j", r"h\,\sum _{j<i}\,A_{ij}\,k_{j}"),
        ("Mhat⁻¹ (G + N)", r"\hat{M}^{-1}\,(G\,+\,N)"),
        ("(Jλ)_bar = f", r"\overline{Jλ}\,=\,f"),
        ("(F- - F+) δt", r"(F^{-}\,-\,F^{+})\,δt"),
        ("e1^(P+2D)/(q+1)", r"e_{1}^{(P+2D)/(q+1)}"),
        ("|R| ≤ 1e-4", r"|R|\,\le \,10^{-4}"),
        ("√(L² - r²)/L²", r"\sqrt{L^{2}\,-\,r^{2}}/L^{2}"),
        ("ã, u_j_bar, v'_bar", r"\tilde{a},\,\bar{u}_{j},\,\bar{v}'"),
        ("dofs that carry j", r"\mathrm{dofs}\ \mathrm{that}\ \mathrm{carry}\ j"),
    ],
)
def test_equations(text, latex):
    assert equations.to_latex(text) == latex


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs/derivations").glob("*.md")), ids=lambda x: x.stem
)
def test_every_equation_of_the_derivations_is_typeset(page):
    text = page.read_text()
    typeset = equations.typeset(text)
    numbers = re.findall(r"^    .*\((\d+)\)\s*$", text, re.MULTILINE)
    assert re.findall(r"\\tag\{(\d+)\}", typeset) == numbers
    assert not [x for x in typeset.splitlines() if x.startswith("    ")]
    for block in re.findall(r"```\{math\}.*?```", typeset, re.DOTALL):
        assert block.count("{") == block.count("}")
        assert "_{}" not in block and "^{}" not in block


def test_public_headers_are_read_in_full():
    for path in (ROOT / "include/diffmj").glob("*.h"):
        intro, declarations = headers.read(path)
        assert intro, path
        text = path.read_text()
        for kind, name in re.findall(
            r"^(struct|class|enum class) (\w+)[^;]*?\{", text, re.MULTILINE
        ):
            assert name in [x.name for x in declarations], (path, kind)
        page = headers.page(path)
        assert " private:" not in page
        assert page.count("```") % 2 == 0


def test_every_public_name_is_in_the_python_reference():
    import diffmj

    text = (SITE / "reference/python.md").read_text()
    named = set(re.findall(r"auto(?:class|function):: diffmj\.(\w+)$", text, re.MULTILINE))
    assert set(diffmj.__all__) - named == {"__version__", "mujoco_version"}


def test_broken_links_are_found(tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html#here">b</a><a href="https://x.org/">x</a>')
    (tmp_path / "b.html").write_text('<p id="here"></p>')
    assert check_links.broken(tmp_path) == []
    (tmp_path / "b.html").write_text('<p id="there"></p><img src="c.png">')
    assert check_links.broken(tmp_path) == [
        "a.html: b.html#here: no such place",
        "b.html: c.png: no such file",
    ]
