"""The report: its declarations, the page, the films, and what a browser makes of it."""

import json
import os
import re
import shutil
import subprocess

import pytest
from PIL import Image

from experiments import declaration, demo, film
from experiments.page import Result, page

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")

# what the page says about itself once it is loaded, written where --dump-dom shows it
PROBE = """
<script>
window.problems = [];
const note = e => window.problems.push(String(e.message || e.target.src));
window.addEventListener("error", note, true);
window.addEventListener("load", () => {
  const pictures = Array.from(document.images);
  const root = document.documentElement;
  const report = {
    problems: window.problems,
    pictures: pictures.length,
    empty: pictures.filter(x => !x.complete || x.naturalWidth < 100).map(x => x.alt),
    small: pictures.filter(x => x.getBoundingClientRect().width < 100).map(x => x.alt),
    fetched: performance.getEntriesByType("resource").map(x => x.name)
      .filter(x => !x.startsWith("data:")),
    width: root.clientWidth,
    overflow: root.scrollWidth - root.clientWidth,
    hidden: pictures.filter(x => x.getClientRects().length == 0).map(x => x.className),
    cut: pictures.filter(x => x.getBoundingClientRect().right > root.clientWidth).map(x => x.alt),
    highest: Math.max(...pictures.map(x => x.getBoundingClientRect().height)),
    sections: Array.from(document.querySelectorAll("section")).map(x => x.id),
  };
  const out = document.createElement("pre");
  out.id = "probe";
  out.textContent = JSON.stringify(report);
  document.body.appendChild(out);
});
</script>
"""

DECLARATION = """
order = 1
title = "One < two"
see = "This."
paper = "figure 1"
film = "A film."
[[figures]]
file = "plot"
caption = "A plot."
[[numbers]]
what = "a number"
ours = "a.b"
paper = "3"
format = ".1f"
unit = "m"
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The page of two short experiments."""
    out = tmp_path_factory.mktemp("report")
    assert demo.main(["--only", "drops", "point_mass", "--out", str(out)]) == 0
    return out / "index.html"


@pytest.fixture
def declared(tmp_path):
    folder = tmp_path / "new"
    folder.mkdir()
    (folder / "about.toml").write_text(DECLARATION)
    return folder


def test_a_folder_with_a_declaration_is_an_experiment(declared, monkeypatch):
    monkeypatch.setattr(declaration, "FOLDER", declared.parent)
    (experiment,) = declaration.experiments()
    assert (experiment.name, experiment.title) == ("new", "One < two")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('see = "This."\n', "", "see missing"),
        ("see =", "sea =", "see missing"),
        ('film = "A', 'fim = "A', "unknown fim"),
        ('caption = "A plot."\n', "", "figures: caption missing"),
        ('paper = "3"\n', "", "numbers: paper missing"),
        ('unit = "m"', 'units = "m"', "numbers: unknown units"),
    ],
)
def test_a_declaration_with_a_mistake_is_refused(declared, old, new, message):
    (declared / "about.toml").write_text(DECLARATION.replace(old, new, 1))
    with pytest.raises(ValueError, match=message):
        declaration.load(declared)


def test_lookup():
    assert declaration.lookup({"a": {"b c": 2}}, "a.b c") == 2
    with pytest.raises(KeyError, match="no 'd' among a"):
        declaration.lookup({"a": 1}, "d")


def test_page_says_what_failed_and_what_is_missing(declared):
    experiment = declaration.load(declared)
    record = {
        "numbers": {"a": {"b": 2.04}, "note": "Made up & said so."},
        "checks": [{"what": "it", "measured": 1.0, "bound": "< 0", "ok": False}],
    }
    # the smallest part of a PNG that the page reads: its width
    (declared / "plot.png").write_bytes(b"\x89PNG" + bytes(12) + (1300).to_bytes(4, "big"))
    good = Result(experiment, declared, 3.0, "", record)
    bad = Result(experiment, declared, 3.0, "Traceback\nIt & broke", None)
    text = page([good, bad], "about", "no renderer here")
    for words in (
        "One &lt; two",
        "1 of 1 missed",
        "No film: no renderer here",
        "2.0 m",
        "failed",
        "It &amp; broke",
        "Made up &amp; said so.",
    ):
        assert words in text


def test_an_experiment_that_does_not_exist_is_an_error(capsys):
    with pytest.raises(SystemExit):
        demo.main(["--only", "tos"])
    assert "no experiment tos; there are first_gradient" in capsys.readouterr().err


def test_page_is_self_contained(report):
    text = report.read_text()
    assert not re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', text)
    assert text.count("data:image/png") == 2
    assert "<script" not in text


def test_films(tmp_path):
    renderer = film.backend()
    if not renderer:
        pytest.skip("neither EGL nor OSMesa: MuJoCo cannot render")
    for experiment in declaration.experiments():
        if experiment.film:
            result = Result(experiment, tmp_path, 0.0, "", None)
            demo.add_film(result, renderer)
            required = "DIFFMJ_REQUIRE_MYOSUITE" in os.environ and "MyoSuite" in result.no_film
            if "the scene needs" in result.no_film and not required:
                continue
            assert result.strip[:4] == b"\x89PNG"
            assert result.film[8:12] == b"WEBP"
            assert len(result.strip) > 10_000


@pytest.fixture
def browser(tmp_path):
    """Calls one without a window: browser(path, *options) -> what it writes to its output."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is installed")

    def call(page, *options):
        command = [path, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--user-data-dir={tmp_path / 'profile'}", *options, page.as_uri()]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=120, check=True
        ).stdout

    return call


def look(browser, tmp_path, text, width):
    """What PROBE sees at this width."""
    probed = tmp_path / "probed.html"
    probed.write_text(text.replace("<body>", f"<body>{PROBE}"))
    options = f"--window-size={width},1000", "--virtual-time-budget=10000", "--dump-dom"
    shown = browser(probed, *options)
    found = re.search(r'<pre id="probe">(.*?)</pre>', shown, re.DOTALL)
    assert found, shown[-500:]
    return json.loads(found.group(1).replace("&amp;", "&").replace("&lt;", "<"))


@pytest.mark.parametrize("width", [1200, 390], ids=["desktop", "phone"])
def test_browser(browser, report, tmp_path, width):
    seen = look(browser, tmp_path, report.read_text(), width)
    assert seen["problems"] == []
    assert seen["sections"] == ["point_mass", "drops"]
    assert seen["pictures"] == 2
    assert seen["empty"] == seen["small"] == seen["fetched"] == seen["hidden"] == []
    assert seen["width"] == width
    assert seen["overflow"] <= 0


def printed_pages(browser, tmp_path, text, size):
    page, pdf = tmp_path / "printed.html", tmp_path / "printed.pdf"
    page.write_text(text.replace("</style>", f"@page {{ size: {size}; }}</style>"))
    browser(page, f"--print-to-pdf={pdf}", "--no-pdf-header-footer")
    return len(re.findall(rb"/Type /Page\b", pdf.read_bytes()))


@pytest.mark.parametrize("size", ["A4", "letter"])
def test_a_printed_section_is_a_page(browser, report, tmp_path, size):
    assert printed_pages(browser, tmp_path, report.read_text(), size) == 1 + 2


def test_a_film_is_printed_as_a_strip(browser, declared, tmp_path):
    """What the rules for print make of a page as wide as A4 without its margins."""
    for name, shape in {"strip.png": (1950, 240), "film.webp": (640, 480)}.items():
        Image.new("RGB", shape, "orange").save(tmp_path / name)
    for width, height in ((2400, 900), (900, 900)):
        Image.new("RGB", (width, height), "orange").save(declared / "plot.png")
        record = {"numbers": {"a": {"b": 2.04}}, "checks": []}
        strip, moving = ((tmp_path / name).read_bytes() for name in ("strip.png", "film.webp"))
        result = Result(declaration.load(declared), declared, 3.0, "", record, strip, moving)
        text = page([result], "about", "")
        assert look(browser, tmp_path, text, 700)["hidden"] == []
        on_paper = text.replace("@media screen", "@media not all").replace("@media print", "@media")
        seen = look(browser, tmp_path, on_paper, 700)
        assert seen["hidden"] == ["film"]
        assert seen["cut"] == []
        assert 200 < seen["highest"] < 450  # [px] of 1032 on a page
        assert printed_pages(browser, tmp_path, text, "A4") == 2
