"""Sphinx: the documentation site, which `make docs` builds from what stage.py puts beside this."""

import re

import diffmj

project = "diffmj"
author = "The diffmj authors"
copyright = "The diffmj authors"
version = release = diffmj.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # equations without a network
    "sphinx_copybutton",
]
exclude_patterns = ["files/**", "_build/**"]
smartquotes = False  # v' is a derivative

# the theme of MuJoCo's documentation
html_theme = "furo"
html_title = f"diffmj {release}"
html_static_path = ["_static"]
html_css_files = ["diffmj.css"]
html_copy_source = False
html_show_sourcelink = False
pygments_style = "friendly"
pygments_dark_style = "native"

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 4

# notebooks run here, and an error in one of them is an error of the build
nb_execution_mode = "force"
nb_execution_timeout = 240
nb_execution_raise_on_error = True
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_class_signature = "separated"
autodoc_default_options = {"members": True, "undoc-members": False}
napoleon_use_ivar = True
napoleon_use_rtype = False
napoleon_preprocess_types = False
python_maximum_signature_line_length = 88

# internal links are checked by the build itself; `make docs-links` checks those to other sites
linkcheck_timeout = 20
linkcheck_retries = 2
linkcheck_anchors = False


_SECTION = re.compile(r"(Args|Returns|Raises|Warns|Attributes|Yields):$")


def _section(lines: list[str], name: str) -> list[str]:
    """The indented lines of a section, and the empty ones between them."""
    if f"{name}:" not in lines:
        return []
    rest = lines[lines.index(f"{name}:") + 1 :]
    end = next((i for i, x in enumerate(rest) if x.strip() and not x.startswith(" ")), len(rest))
    return rest[:end]


def docstring_to_rst(lines: list[str]) -> list[str]:
    """Docstrings are written as plain text that reads well in a terminal: code in single backticks
    or indented, sections as Google's style has them. Here they become what napoleon reads."""
    out: list[str] = []
    section, code = "", False
    # several results are a list
    if sum(bool(re.match(r"    \w+: ", x)) for x in _section(lines, "Returns")) > 1:
        begin = lines.index("Returns:")
        results = _section(lines, "Returns")
        items = [re.sub(r"^    (?=\w+: )", "- ", x) for x in results]
        items = [re.sub(r"^ {8}", "  ", x) for x in items]
        lines = [
            *lines[:begin],
            "Returns several results:",
            "",
            *items,
            *lines[begin + 1 + len(results) :],
        ]
    for line in lines:
        if line.strip() and not line.startswith(" "):
            code = False
            section = _SECTION.match(line)[1] if _SECTION.match(line) else ""
            inline = re.match(r"Args: (.+)$", line)
            if inline:  # "Args: as for `rollout`, and"
                section = "Args"
                out += [f"Arguments are {inline[1]}:".replace("are as", "as"), ""]
                line = "Args:"
        elif line.startswith("    ") and not section and not code and not (out and out[-1].strip()):
            code = True
            if ">>>" not in line:
                out += ["::", ""]
        if code:
            out.append(line)
            continue
        parts = re.split(r"(`[^`]+`)", line)
        for i, part in enumerate(parts):
            if i % 2:
                parts[i] = f"`{part}`"
            else:
                escaped = re.sub(r"(?<!^    )([*|])", r"\\\1", part)
                parts[i] = re.sub(r"(\w)_(?=[\s,.;:)]|$)", r"\1\\_", escaped)
        out.append("".join(parts))
    return out


def _convert(app, what, name, obj, options, lines):
    lines[:] = docstring_to_rst(lines)


def setup(app):
    app.connect("autodoc-process-docstring", _convert, priority=400)  # before napoleon
