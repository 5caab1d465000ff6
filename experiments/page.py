"""The report as one HTML file: figures, films and tables of numbers embedded, no script."""

from __future__ import annotations

import base64
import html
from dataclasses import dataclass
from pathlib import Path

from experiments.declaration import Experiment, lookup

REM = 38  # pixels of a figure that may share the width of a letter m on a phone
PHONE = 26  # [rem]; a figure that would be wider is moved sideways there
PRINTED = 0.42  # CSS pixels of a figure's pixel on paper: its letters are half as high as the text

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.55 system-ui, sans-serif; color: #1b1f24; background: #fff; margin: 0; }
main { max-width: 68rem; margin: 0 auto; padding: 1rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 1.2rem 0 .4rem; }
h2 { font-size: 1.35rem; line-height: 1.25; margin: 3rem 0 .4rem; padding-top: 1rem;
     border-top: 1px solid #d5dae0; }
p { max-width: 46rem; margin: .5rem 0; }
.see { font-size: 1.08rem; }
.note { padding: .4rem .8rem; background: #f3f5f7; border-left: 3px solid #8c959f; }
.quiet, figcaption, details { color: #57606a; font-size: .92rem; }
figure { margin: 1.2rem 0; }
figcaption { max-width: 46rem; margin-top: .3rem; }
.wide { overflow-x: auto; }
.wide img { display: block; width: 100%; height: auto; }
.film { max-width: 100%; height: auto; border-radius: 4px; }
table { border-collapse: collapse; margin: .8rem 0; font-size: .95rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem 1rem .3rem 0;
         border-bottom: 1px solid #e4e8ec; }
th { font-weight: 600; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
code { font: .9em ui-monospace, monospace; background: #f3f5f7; padding: .1em .3em; }
pre { overflow-x: auto; background: #f3f5f7; padding: .8rem; font-size: .85rem; }
a { color: #0059a8; }
.missed { color: #b3261e; font-weight: 600; }
.only-phone { display: none; }
@media screen and (max-width: 44rem) {
  main { padding: .5rem .9rem 3rem; }
  .wide img { min-width: var(--readable); }  /* such that it is moved sideways */
  th, td { padding-right: .6rem; }
  .only-phone { display: block; }
}
@page { margin: 12mm; }
@media print {
  :root, body { font-size: 10pt; }
  main { max-width: none; padding: 0; }
  h1 { margin-top: 0; }
  h2 { border: none; margin-top: 0; padding-top: 0; }
  section { break-before: page; }
  h2, .see, .see + .quiet { break-after: avoid; }
  figure, table { break-inside: avoid; }
  p, figcaption { max-width: none; }
  figure { margin: .8rem 0; }
  table { margin: .5rem 0; }
  th, td { padding-top: .15rem; padding-bottom: .15rem; }
  .wide { overflow: visible; }
  .wide img { max-width: min(100%, var(--printed)) !important; }
  details, .film, .only-screen { display: none; }
}
"""


@dataclass
class Result:
    """What a run of an experiment left."""

    experiment: Experiment
    folder: Path
    seconds: float
    output: str  # of the run
    record: dict | None  # numbers.json; None: the run failed
    strip: bytes = b""
    film: bytes = b""
    no_film: str = ""  # why it has none

    @property
    def missed(self) -> list[dict]:
        return [x for x in self.record["checks"] if not x["ok"]] if self.record else []


def page(results: list[Result], about: str, no_film: str) -> str:
    """The file. about: what was run; no_film: why there are no films, if there are none."""
    rows = "".join(
        f'<tr><td><a href="#{x.experiment.name}">{_text(x.experiment.title)}</a></td>'
        f"<td>{_verdict(x)}</td><td class=number>{x.seconds:.0f} s</td></tr>"
        for x in results
    )
    sections = "".join(_section(x, no_film) for x in results)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>diffmj: gradients through contact</title>
<link rel="icon" href="data:,">
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>diffmj: gradients through contact</h1>
<p>Experiments on MuJoCo's own forward pass, beside what the paper on DiffMJX [Paulus26] shows. Each
section has one sentence on what to look for.</p>
<p class=quiet>{_text(about)}</p>
<p class="quiet only-phone">Wide figures and tables move sideways.</p>
<div class=wide><table>
<tr><th>experiment</th><th>checked numbers</th><th>time</th></tr>
{rows}
</table></div>
{sections}
</main>
</body>
</html>
"""


def _section(x: Result, no_film: str) -> str:
    e = x.experiment
    head = f"""<section id="{e.name}">
<h2>{_text(e.title)}</h2>
<p class=see>{_text(e.see)}</p>
<p class=quiet>{f"In the paper: {_text(e.paper)}." if e.paper else "Not in the paper."}</p>
"""
    if x.record is None:
        tail = _text("\n".join(x.output.splitlines()[-15:]))
        return f"{head}<p class=missed>It did not run to its end:</p><pre>{tail}</pre></section>"
    figures = "".join(_figure(x, figure) for figure in e.figures)
    note = x.record["numbers"].get("note")
    if note:
        head += f"<p class=note>{_text(note)}</p>\n"
    return f"{head}{_film(x, no_film)}{figures}{_numbers(x)}{_details(x)}</section>"


def _film(x: Result, no_film: str) -> str:
    if not x.experiment.film:
        return ""
    if not x.strip:
        return f"<p class=quiet>No film: {_text(x.no_film or no_film)}</p>"
    caption = _text(x.experiment.film)
    return f"""<figure><div class=wide>{_image(x.strip, caption)}</div>
<figcaption>{caption}</figcaption></figure>
<p class=only-screen><img class=film src="{_data(x.film, "image/webp")}" alt="{caption}"></p>
"""


def _figure(x: Result, figure: dict) -> str:
    image = (x.folder / f"{figure['file']}.png").read_bytes()
    caption = _text(figure["caption"])
    return f"""<figure><div class=wide>{_image(image, caption)}</div>
<figcaption>{caption}</figcaption></figure>
"""


def _numbers(x: Result) -> str:
    if not x.experiment.numbers:
        return ""
    rows = ""
    for row in x.experiment.numbers:
        value = lookup(x.record["numbers"], row["ours"])
        ours = f"{value:{row.get('format', '')}} {row.get('unit', '')}".strip()
        paper = f"<td>{_text(row['paper'])}</td>" if x.experiment.paper else ""
        rows += (
            f"<tr><td>{_text(row['what'])}</td><td class=number>{_text(ours)}</td>{paper}</tr>\n"
        )
    return f"""<div class=wide><table>
<tr><th></th><th>here</th>{"<th>in the paper</th>" if x.experiment.paper else ""}</tr>
{rows}</table></div>
"""


def _details(x: Result) -> str:
    checks = "".join(
        f"<tr><td>{_text(c['what'])}</td><td class=number>{c['measured']:.4g}</td>"
        f"<td class=number>{_text(c['bound'])}</td></tr>"
        for c in x.record["checks"]
    )
    files = ", ".join(
        f'<a download="{x.experiment.name}_{path.name}" '
        f'href="{_data(path.read_bytes(), "text/csv")}">{path.name}</a>'
        for path in sorted(x.folder.glob("*.csv"))
    )
    return f"""<p class="quiet only-screen">Data: {files}. Again, with all points:
<code>make experiments EXPERIMENTS={x.experiment.name}</code></p>
<details><summary>{_verdict(x)}</summary><div class=wide><table>
<tr><th>number</th><th>measured</th><th>expected</th></tr>{checks}</table></div></details>
"""


def _verdict(x: Result) -> str:
    if x.record is None:
        return "<span class=missed>failed</span>"
    n, missed = len(x.record["checks"]), len(x.missed)
    if missed:
        return f"<span class=missed>{missed} of {n} missed</span>"
    return f"all {n} as expected"


def _image(png: bytes, alt: str) -> str:
    width = int.from_bytes(png[16:20], "big")  # pixels
    readable = width / REM if width > PHONE * REM else 0
    style = f"--readable: {readable:.0f}rem; --printed: {PRINTED * width:.0f}px; "
    style += f"max-width: {0.75 * width:.0f}px"
    return f'<img src="{_data(png, "image/png")}" alt="{alt}" style="{style}">'


def _data(data: bytes, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _text(x: object) -> str:
    return html.escape(str(x))
