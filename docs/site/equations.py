"""Equations of the derivations, typeset.

The pages write an equation as it would stand in a comment of the code, as an indented line with its
number at the end:

    z_bar += -d/dz [ λᵀ g(a; z) ],      a and λ held fixed      (4)

so that both can be read beside each other. Here such lines become LaTeX. The notation is small: _
and ^ for indices, _bar, hat and ' for decorations, Unicode for the rest; words are upright.
"""

from __future__ import annotations

import re
import unicodedata

_SYMBOLS = {
    "Σ": r"\sum ",
    "Π": r"\prod ",
    "∫": r"\int ",
    "∂": r"\partial ",
    "∇": r"\nabla ",
    "½": r"\tfrac{1}{2} ",
    "·": r"\cdot ",
    "×": r"\times ",
    "⊕": r"\oplus ",
    "⊖": r"\ominus ",
    "≤": r"\le ",
    "≥": r"\ge ",
    "≠": r"\ne ",
    "≈": r"\approx ",
    "∝": r"\propto ",
    "∈": r"\in ",
    "±": r"\pm ",
    "∓": r"\mp ",
    "⟂": r"\perp ",
    "ℓ": r"\ell ",
    "°": r"^\circ ",
    "Ẇ": r"\dot{W}",
    "%": r"\% ",
    "{": r"\{",
    "}": r"\}",
}
_FUNCTIONS = {"min", "max", "log", "exp", "sin", "cos", "tan", "cot", "arg"}
_SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋", "0123456789+-", strict=True))
_SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻ᵀ", [*"0123456789-", r"\mathsf{T}"], strict=True))
_GREEK = "α-ωΑ-ΟΡΤ-Ωℓ"  # without Σ and Π, which are a sum and a product
_LETTER = rf"[A-Za-z{_GREEK}]"
# what the pages write as one word
_SPELT = {
    "Ja": "J a",
    "Jv": "J v",
    "mu": r"\mu",
    "Jr": "J_r",
    "Jl": "J_l",
    "Dm": "D_m",
    "τm": "τ_{m}",
    "τk": "τ_{k}",
}
_HATS = {"Mhat", "bhat"}

_TOKEN = re.compile(
    rf"""
    `(?P<code>[^`]*)`
  | (?P<number>\d+(?:\.\d+)?(?:e-?\d+)?)
  | (?P<name>[A-Za-z]+\d*|τ[mk](?![a-z])|[{_GREEK}]\d*)(?P<tilde>\u0303?)
  | (?P<sub>_)
  | (?P<sup>\^)
  | (?P<subs>[₀-₉₊₋]+)
  | (?P<sups>[⁰¹²³⁴-⁹⁻ᵀ]+)
  | (?P<root>√)
  | (?P<assign>[-+]=|:=)
  | (?P<dual>×\*)
  | (?P<dots>\.\.\.?)
  | (?P<space>\s+)
  | (?P<other>.)
    """,
    re.VERBOSE,
)


def is_equation(line: str) -> bool:
    return bool(re.search(r"[=≈∝≤⊕×·ΣΠ|δ]", line) or _NUMBER.search(line))


def to_latex(text: str) -> str:
    """One formula, with the words in it."""
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str):
        # decompose letters with a tilde, and nothing else
        self.text = unicodedata.normalize("NFC", text)
        for letter in "ãñõ":
            self.text = self.text.replace(letter, unicodedata.normalize("NFD", letter))
        self.at = 0

    def peek(self, pattern: str) -> str:
        found = re.compile(pattern).match(self.text, self.at)
        return found[0] if found else ""

    def take(self, pattern: str) -> str:
        found = self.peek(pattern)
        self.at += len(found)
        return found

    def read(self) -> str:
        out = ""
        while self.at < len(self.text):
            out += self.token()
        return out

    def token(self) -> str:
        match = _TOKEN.match(self.text, self.at)
        assert match is not None
        kind, value = match.lastgroup, match[0]
        self.at = match.end()
        if match["code"] is not None:
            return rf"\texttt{{{match['code']}}}"
        if match["name"]:
            return self.name(match["name"], bool(match["tilde"]))
        if kind == "number":
            return _number(value)
        if kind == "sub":
            return self.index("_")
        if kind == "sup":
            return self.exponent()
        if kind == "subs":
            return "_{" + "".join(_SUBSCRIPTS[x] for x in value) + "}"
        if kind == "sups":
            return "^{" + "".join(_SUPERSCRIPTS[x] for x in value) + "}"
        if kind == "root":
            return r"\sqrt{" + _inner(to_latex(self.group())) + "}"
        if kind == "assign":
            return r"\mathrel{" + "".join(f"{{{x}}}" for x in value) + "}"
        if kind == "dual":
            return r"\times^{*} "
        if kind == "dots":
            return r"\ldots "
        if kind == "space":
            return self.space(match.start(), match.end())
        if value == "(":
            self.at -= 1
            begin, inner = self.at, self.group()
            if self.take(r"_bar(?![a-z])"):
                return rf"\overline{{{to_latex(inner[1:-1])}}}"
            self.at = begin + 1
        return _SYMBOLS.get(value, value)

    def space(self, begin: int, end: int) -> str:
        """A space beside a word is kept; between two letters it is a product."""
        before = re.search(r"(?<![A-Za-z_])([A-Za-z]+)[\w']*$", self.text[:begin])
        after = re.match(r"([A-Za-z]+)", self.text[end:])
        words = [x[1] for x in (before, after) if x]
        return r"\ " if any(not _is_symbol(x) for x in words) else r"\,"

    def name(self, name: str, tilde: bool) -> str:
        base, digits = re.fullmatch(r"(\D+)(\d*)", name).groups()
        hat = base in _HATS
        base = base.removesuffix("hat") if hat else base
        if name in _FUNCTIONS:
            return "\\" + name + " "
        if _is_symbol(base):
            latex = _SPELT.get(base, " ".join(base.removesuffix("hat")))
        else:
            latex = rf"\mathrm{{{base}}}"
        if base == "ℓ":
            latex = r"\ell"
        latex = rf"\tilde{{{latex}}}" if tilde else latex
        latex = rf"\hat{{{latex}}}" if hat else latex
        subscript = digits
        primes = self.take("'+")
        # the two sides of a jump: F-, F+
        side = self.take(r"[-+](?=[\s)\],]|$)")
        bar = False
        # v'_bar_j, act_dot_i, u_j_bar
        while True:
            mark = self.take(r"[₀-₉]+")
            if mark:
                subscript += "".join(_SUBSCRIPTS[x] for x in mark)
            elif self.take(r"_bar(?![a-z])"):
                bar = True
            elif self.peek(r"_dot(?![a-z])"):
                self.at += 4
                latex = rf"\dot{{{latex}}}"
            elif self.peek(rf"_(?:{_LETTER}|\d)+") and not self.peek(r"_(bar|dot)"):
                index = self.take(rf"_(?:{_LETTER}|\d)+")[1:]
                subscript += ("," if subscript else "") + _index(index)
            else:
                break
        latex = rf"\bar{{{latex}}}" if bar else latex
        latex += primes + (f"_{{{subscript}}}" if subscript else "")
        return latex + (f"^{{{side}}}" if side else "")

    def index(self, mark: str) -> str:
        if self.peek(r"\("):
            return f"{mark}{{{_inner(to_latex(self.group()))}}}"
        if self.peek(r"\{"):
            end = self.text.index("}", self.at)
            inner = self.text[self.at + 1 : end]
            self.at = end + 1
            return f"{mark}{{{to_latex(inner)}}}"
        plain = self.take(rf"(?:{_LETTER}|\d)+(?:[<>][A-Za-z0-9]+)?")
        return f"{mark}{{{_index(plain)}}}"

    def exponent(self) -> str:
        out = self.take("-")
        if self.peek(r"\("):
            inner = self.group()
            # the parentheses are needed before a fraction only
            follows = self.peek(r"/\(")
            out += to_latex(inner) if follows else _inner(to_latex(inner))
        elif self.peek(r"\|"):
            out += to_latex(self.take(r"\|[^|]*\|"))
        else:
            out += to_latex(self.take(rf"\d+|{_LETTER}+"))
        if self.peek(r"/\("):
            self.at += 1
            out += "/" + to_latex(self.group())
        elif re.fullmatch(r"-?\d", out) and self.peek(r"/\d"):
            out += self.take(r"/\d")
        return f"^{{{out}}}" if out else r"^{\wedge}"  # v^ is v ×

    def group(self) -> str:
        """A pair of parentheses and what is in them."""
        depth, begin = 0, self.at
        while self.at < len(self.text):
            depth += {"(": 1, ")": -1}.get(self.text[self.at], 0)
            self.at += 1
            if depth == 0:
                break
        return self.text[begin : self.at]


def _is_symbol(name: str) -> bool:
    """A letter, a product of two, or a differential: dx, dz."""
    return (
        len(name) == 1 or name in _SPELT or name in _HATS or bool(re.fullmatch(r"d[a-zα-ω]", name))
    )


def _index(text: str) -> str:
    """ij is two indices, max and lin are words."""
    short = len(text) <= 2 or not text.isalpha()
    return text if short else rf"\mathrm{{{text}}}"


def _number(text: str) -> str:
    mantissa, _, exponent = text.partition("e")
    if not exponent:
        return text
    power = rf"10^{{{int(exponent)}}}"
    return power if mantissa == "1" else rf"{mantissa}\cdot {power}"


def _inner(latex: str) -> str:
    return latex[1:-1] if latex.startswith("(") and latex.endswith(")") else latex


_NUMBER = re.compile(r"\s{2,}\((\d+)\)\s*$")
_WIDE = 48  # letters of a formula that has its row to itself


def block_to_latex(lines: list[str]) -> str:
    """Aligned rows; the parts of a long line have a row each, the last of them the number."""
    rows = []
    for line in lines:
        number = _NUMBER.search(line)
        body = line[: number.start()] if number else line
        parts = [x.strip() for x in re.split(r"\s{3,}", body.strip()) if x.strip()]
        parts = _joined(parts)
        one_row = len(body.strip()) <= _WIDE
        groups = [parts] if one_row else [[x] for x in parts]
        for i, group in enumerate(groups):
            row = "&" + r"\qquad ".join(to_latex(x) for x in group)
            if number and i + 1 == len(groups):
                row += rf" \tag{{{number[1]}}}"
            rows.append(row)
    return "\\begin{align*}\n" + " \\\\\n".join(rows) + "\n\\end{align*}"


def _joined(parts: list[str]) -> list[str]:
    """Spaces that only align an = sign do not part a formula."""
    out: list[str] = []
    for part in parts:
        if out and re.match(r"[=≈]|[-+]=", part):
            out[-1] += " " + part
        else:
            out.append(part)
    return out


# What is drawn rather than written: a matrix, and cases.
DRAWN = {
    "| -L": r"""\begin{align*}
&\begin{pmatrix} -L & -B_1 & B_2 \\ -B_1^{\mathsf{T}} & -K_1 & \\
B_2^{\mathsf{T}} & & K_2 \end{pmatrix}
\begin{pmatrix} E^{\mathsf{T}} \delta n \\ \delta\theta_1 \\ \delta\theta_2 \end{pmatrix} =
\begin{pmatrix} -E^{\mathsf{T}} (w_2 - w_1) \\ -T_1^{\mathsf{T}} (\omega_1 \times n) \\
T_2^{\mathsf{T}} (\omega_2 \times n) \end{pmatrix}, \qquad B = E^{\mathsf{T}} T \tag{5}
\end{align*}""",
    "| -ω v^": r"""\begin{align*}
&W = \begin{pmatrix} -\omega v^{\wedge} & 1 & 0 \\ a_q & a_v & a_w \\
w_q & w_v & w_w \end{pmatrix}, \\
&\omega = \tfrac{1}{2}; \qquad v^{\wedge} = v\,\times \text{, of rotations alone} \tag{3}
\end{align*}""",
    "d(r) = MuJoCo's": r"""\begin{align*}
&d(r) = \begin{cases} \text{MuJoCo's} & r \le 0 \\
d_c + y(1 - r/w_c)\,(d_0 - d_c) & 0 < r < w_c \end{cases} \tag{1}
\end{align*}""",
}


def typeset(page: str) -> str:
    """A page with its indented equations as directives of MyST."""
    out: list[str] = []
    block: list[str] = []

    def finish() -> None:
        if not block:
            return
        groups: list[list[str]] = [[]]
        for x in block:
            groups[-1].append(x) if x.strip() else groups.append([])
        for group in groups:
            if not group:
                continue
            drawn = [v for k, v in DRAWN.items() if group[0].strip().startswith(k)]
            latex = drawn[0] if drawn else block_to_latex(group)
            out.extend(["", "```{math}", ":nowrap:", "", latex, "```", ""])
        block.clear()

    fenced = False
    previous_blank = True
    for line in page.split("\n"):
        if line.startswith("```"):
            fenced = not fenced
        begins = line.startswith("    ") and not fenced and (previous_blank or bool(block))
        if begins and line.strip() and (block or is_equation(line)):
            block.append(line)
        elif block and not line.strip():
            block.append(line)
        else:
            finish()
            out.append(line)
        previous_blank = not line.strip() or line.startswith("#")
    finish()
    return "\n".join(out)
