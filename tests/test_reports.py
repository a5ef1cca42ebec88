# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The reports, rendered by a browser: nothing overflows, plots have data, axes and a legend; in light and dark.

The runs are on memory and on the model controller, so no virtual machine is needed. Screenshots are left in
out/test-reports for inspection."""

import html
import json
import re
import shutil
import subprocess

import pytest
from scripted import ROOT

OUT = ROOT / "out" / "test-reports"
# Chromium's option for the reader's preference.
DARK = "--blink-settings=preferredColorScheme=0"
STRAIGHTWAY = ROOT / "target" / "release" / "straightway"
RUNS = {
    "sustain": (["sustain", "ram:32M", "--rate", "2000iops", "--block", "4K", "--deadline", "2ms", "--duration", "3s",
                 "--span", "16M", "--warm-up", "200ms"], (0, 1, 5)),
    "trace": (["trace", "model:32M", "--block", "8K", "--requests", "400", "--span", "8M"], (0, 5)),
    "periodic": (["periodic", "model:32M", "--block", "64K", "--period", "10ms", "--firings", "60", "--priorities", "normal",
                  "--loads", "none,medium", "--span", "8M"], (0, 5)),
    "sweep": (["sweep", "model:64M", "--sizes", "512,4K,64K,1M", "--depths", "1,8", "--rounds", "5", "--cell-duration", "20ms",
               "--span", "8M", "--figure", str(OUT / "figure.svg")], (0, 5)),
    "explain": (["explain", "model:64M", "--block", "4K", "--rounds", "5", "--cell-duration", "30ms", "--span", "8M"], (0, 5)),
    "compare": (["compare", "model:64M", "--sizes", "4K,64K", "--rounds", "5", "--cell-duration", "20ms"], (0, 5)),
    "speed": (["speed", "ram:32M", "--one", "--rounds", "5", "--cell-duration", "20ms", "--span", "8M"], (0, 5)),
    "profile": (["profile", "ram:32M", "--duration", "2s", "--span", "8M"], (0, 5)),
    "workload": (["workload", "varmail", str(OUT), "--dataset", "4M", "--duration", "300ms"], (0, 5)),
}  # fmt: skip
FIGURE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 100" width="900"><rect width="200" height="100" fill="#0072b2"/>
<text x="10" y="50">made elsewhere</text></svg>"""
# Runs within the report and sends its findings to the page around it.
PROBE = """<script>
addEventListener("load", () => {
  const wide = document.documentElement.scrollWidth - innerWidth;
  const plots = [...document.querySelectorAll("svg.plot")].map(svg => {
    const box = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")];
    const out = texts.filter(text => {
      const t = text.getBoundingClientRect();
      return t.width > 0 && (t.left < box.left - 2 || t.right > box.right + 2 || t.bottom > box.bottom + 2 || t.top < box.top - 2);
    });
    const section = svg.closest("section");
    const lines = [...svg.querySelectorAll("path.line")].map(path => path.getAttribute("d").length);
    return {
      name: svg.getAttribute("aria-label"), texts: texts.length, out: out.map(text => text.textContent),
      labels: [...svg.querySelectorAll("text.label")].map(text => text.textContent),
      data: lines.filter(length => length > 8).length + svg.querySelectorAll("rect, circle, path.mark").length,
      legend: section ? section.querySelectorAll(".legend li").length : 0, width: box.width,
    };
  });
  const pictures = [...document.images].map(image => image.naturalWidth);
  const shown = [...document.querySelectorAll(".scroll")].filter(box => !box.closest("details:not([open])"));
  const cut = shown.filter(box => box.scrollWidth > box.clientWidth + 1).map(box => box.closest("section").querySelector("h2").textContent);
  const bottom = (name) => document.querySelector(name)?.getBoundingClientRect().bottom;
  const first = document.querySelector("svg.plot")?.getBoundingClientRect().top;
  const paper = getComputedStyle(document.body).backgroundColor;
  parent.postMessage(JSON.stringify({wide, plots, pictures, paper, cut, first, answer: bottom(".answer")}), "*");
});
</script>"""
FRAME = """<!doctype html><body style="margin:0"><pre id="seen"></pre>
<script>addEventListener("message", event => document.getElementById("seen").textContent = event.data)</script>
<iframe src="{source}" style="border:0;width:{width}px;height:1200px"></iframe></body>"""


def chromium(*arguments):
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not browser:
        pytest.skip("there is no Chromium on this machine: apt install chromium")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=3000",
               *map(str, arguments)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module", params=RUNS)
def report(request):
    arguments, codes = RUNS[request.param]
    folder = OUT / request.param
    shutil.rmtree(folder, ignore_errors=True)
    OUT.mkdir(parents=True, exist_ok=True)
    if request.param == "sweep":
        (OUT / "figure.svg").write_text(FIGURE)
    done = subprocess.run([STRAIGHTWAY, "--quiet", *arguments, "--output", folder], capture_output=True, text=True)
    if done.returncode in (3, 4) and request.param == "profile":
        pytest.skip(done.stderr.strip())
    assert done.returncode in codes, done.stderr
    if request.param == "speed":
        join_with_a_slower_one(folder)
    return folder


def join_with_a_slower_one(folder):
    """A layout needs two speeds: the second is the first with all times doubled, not a measurement."""
    one = json.loads((folder / "speed.json").read_text())
    for point in one["points"]:
        point["loop_ns"] *= 2
        point["label"] = "made up: half as fast"
        for result in point["results"]:
            result["throughput_mib_s"] /= 2
            for sample in result["samples"]:
                sample["elapsed_ns"] *= 2
    slower = folder / "slower.json"
    slower.write_text(json.dumps(one))
    command = [STRAIGHTWAY, "--quiet", "speed", folder / "speed.json", slower, "--output", folder]
    assert subprocess.run(command, capture_output=True).returncode in (0, 5)


def look(report, width, *options, is_printed=False):
    """The browser's view of the report in a frame of this width, or of what it prints on paper of this width."""
    page = (report / "report.html").read_text()
    if is_printed:
        page = page.replace("@media print {", "@media all {")
    assert "<script" not in page and "http" not in page.replace("http://www.w3.org", ""), "one offline file, no script"
    probed, frame = report / "probed.html", report / f"frame-{width}.html"
    probed.write_text(page.replace("</head>", PROBE + "</head>"))
    frame.write_text(FRAME.format(source=probed.name, width=width))
    dom = chromium("--window-size=1400,1300", *options, "--dump-dom", frame.as_uri())
    text = dom.split('<pre id="seen">')[1].split("</pre>")[0]
    return json.loads(html.unescape(text))


@pytest.mark.cells("width")
@pytest.mark.parametrize("width", [1280, 360])
def test_nothing_overflows_and_plots_are_whole(report, width):
    seen = look(report, width)
    assert seen["wide"] <= 0, f"the page is {seen['wide']} pixels wider than its window"
    # The reports of explain and workload have only text and tables.
    assert seen["plots"] or report.name in ("explain", "workload")
    for plot in seen["plots"]:
        axes = 1 if "flame" in plot["name"].lower() else 2
        assert plot["data"] > 0, f"{plot['name']} has no data"
        assert len(plot["labels"]) >= axes and all(plot["labels"]) and plot["texts"] >= 4, f"{plot['name']} has no axes"
        assert plot["legend"] > 0, f"{plot['name']} has no legend"
        assert plot["width"] >= 250, plot
        assert not plot["out"], f"{plot['name']}: text outside of the picture: {plot['out']}"
    assert seen["paper"] == "rgb(251, 250, 247)"
    if report.name == "sweep":
        assert seen["pictures"] and all(seen["pictures"]), "the picture that was made elsewhere is not shown"


# A page of A4 between Chromium's margins, in the pixels of CSS.
PAPER_WIDTH = 718
# A reader's first look at a page.
FIRST_SCREEN = 900


def test_the_answer_and_a_chart_are_in_the_first_screen_and_nothing_is_cut(report):
    if report.name != "compare":
        pytest.skip("this is about compare's report")
    for width in 1280, 390:
        seen = look(report, width)
        assert 0 < seen["answer"] < seen["first"] < FIRST_SCREEN, (width, seen["answer"], seen["first"])
        assert width < 1280 or not seen["cut"], seen["cut"]
    assert not look(report, PAPER_WIDTH, is_printed=True)["cut"]
    paper = report / "report.pdf"
    chromium("--no-pdf-header-footer", f"--print-to-pdf={paper}", (report / "report.html").as_uri())
    pages = re.findall(rb"/Type\s*/Page\b", paper.read_bytes())
    assert 0 < len(pages) <= 6, len(pages)


@pytest.mark.shapes("report")
def test_it_is_dark_where_the_reader_wants_it_dark(report):
    assert look(report, 800, DARK)["paper"] == "rgb(20, 22, 26)"


@pytest.mark.cells("size")
@pytest.mark.parametrize("size", ["light", "phone"])
def test_screenshots(report, size):
    picture = report / f"{size}.png"
    # Chromium's windows are at least 500 wide; the layout at 360 is tested in a frame.
    window, dark = ("500,3000", [DARK]) if size == "phone" else ("1280,2400", [])
    chromium(f"--window-size={window}", f"--screenshot={picture}", *dark, (report / "report.html").as_uri())
    assert picture.stat().st_size > 20_000
