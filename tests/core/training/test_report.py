"""The report: curves of bounded size, what is on the page, the page in a browser."""

import html
import json
import math
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from tensorboardX import SummaryWriter
from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog

import pd_core as pd
from pd_core.training.report import write_report
from pd_core.training.report.charts import charts_of
from pd_core.training.report.curves import MOST_POINTS, Curve
from pd_core.training.report.markup import duration, number, plain
from pd_core.training.report.runs import read_runs
from pd_core.training.summaries import histogram_summary, scalar_summary, settings_summaries

from ..onnx.exporting.runtimes.browser import Browser, executable, served

# ---- curves


def filled(values, most=MOST_POINTS):
    curve = Curve(most)
    for step, value in enumerate(values):
        curve.add(step, value)
    return curve


def test_a_short_curve_is_whole():
    points = list(enumerate([3.0, math.inf, 1.0] * 600))
    assert filled([value for _, value in points]).points() == points


@pytest.mark.parametrize("count", [1999, 2001, 5000, 123_457])
def test_a_long_curve_keeps_its_extremes(count, rng):
    values = rng.normal(size=count)
    values[count // 3], values[count // 2], values[count // 5] = 50.0, -60.0, math.nan
    points = filled(values.tolist()).points()
    assert len(points) <= MOST_POINTS
    assert points[-1] == (count - 1, values[-1])
    assert {(count // 3, 50.0), (count // 2, -60.0)} <= set(points)
    assert [step for step, value in points if math.isnan(value)] == [count // 5]
    assert [step for step, _ in points] == sorted({step for step, _ in points})
    assert all(values[step] == value for step, value in points if step != count // 5)
    assert len(points) > MOST_POINTS // 3


def test_each_stretch_of_a_long_curve_has_its_extremes(rng):
    """The band that is drawn is that of all values: in each 1/100 of the steps."""
    values = rng.normal(size=50_000)
    points = filled(values.tolist()).points()
    for start in range(0, 50_000, 500):
        kept = [value for step, value in points if start <= step < start + 500]
        part = values[start + 64 : start + 436]  # groups at the ends belong to two stretches
        assert max(kept) >= part.max() and min(kept) <= part.min()


def test_a_purged_curve(rng):
    values = rng.normal(size=10_000).tolist()
    curve = filled(values)
    curve.purge(7_000)
    assert all(step < 7_000 for step, _ in curve.points()) and curve.last == curve.points()[-1]
    for step in range(7_000, 10_000):
        curve.add(step, 0.5)
    steps = [step for step, _ in curve.points()]
    assert steps == sorted(steps) and len(steps) <= MOST_POINTS and curve.last == (9_999, 0.5)
    curve.purge(0)
    assert curve.points() == [] and curve.last is None


# ---- logs


def write(folder, *events):
    """Write a file of events: (step, summary), or (step, None) for the start of a resumed run."""
    folder.mkdir(parents=True, exist_ok=True)
    writer = EventsWriter(str(folder / "events"), f".{len(list(folder.iterdir()))}")
    for step, summary in events:
        if summary is None:
            start = SessionLog(status=SessionLog.START)
            writer.write_event(Event(step=step, session_log=start))
        else:
            writer.write_event(Event(step=step, summary=summary))
    writer.close()


def log(folder, rate=0.1, count=40, **tags):
    """A run with all that a report shows; `tags` are further numbers."""
    rng = np.random.default_rng(int(rate * 100))
    events = [(0, s) for s in settings_summaries({"rate": rate, "layers": 2}, ["cost"])]
    for k in range(1, count + 1):
        numbers = {"train/cost": math.exp(-rate * k), "train/error": 1 / k, **tags}
        numbers |= {"time/reading": 1.0, "time/step": 3.0, "time/other": 0.5}
        events.append((k, scalar_summary(numbers)))
        if k % 10 == 0:
            events.append((k, scalar_summary({"test/cost": math.exp(-rate * k) + 0.1})))
            w = np.maximum(rng.normal(size=100), 0)
            events.append((k, histogram_summary("parameters/fc.w", w)))
            events.append((k, histogram_summary("gradients/fc.w", np.array([3.0, 4.0]))))
    write(folder, *events)


def test_means_of_training_are_no_tests(tmp_path):
    """Logs of today, and older ones, which called the mean of a pass `pass`."""
    log(tmp_path / "new", **{"train_mean/cost": 0.5})
    log(tmp_path / "old", **{"pass/cost": 0.5})
    for name in ("new", "old"):
        (chart, *_) = charts_of(read_runs([tmp_path / name]))
        assert chart.title == "cost"
        assert [series.kind for series in chart.series] == ["train", "train mean", "test"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.5, "0.5 s"), (59.0, "59 s"), (61.0, "1 min 01 s"), (7500.0, "2 h 05 min")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_script_date_and_time_of_a_run(tmp_path):
    """Two starts of a training: 30 s until a kill, and 60 s an hour later."""
    began = 1_500_000_000.0
    settings = settings_summaries({"script": "<train>.py", "rate": 0.5}, ["cost"])
    for start, length in ((began, 30.0), (began + 3600.0, 60.0)):
        writer = EventsWriter(str(tmp_path / "events"), f".{start}")
        for k, summary in enumerate([*settings, scalar_summary({"train/cost": 0.25})]):
            at = start + length * (k == len(settings))
            writer.write_event(Event(wall_time=at, step=7, summary=summary))
        writer.close()
    (run,) = read_runs([tmp_path])
    assert (run.script, run.settings) == ("<train>.py", {"rate": 0.5})
    write_report(tmp_path / "page.html", [tmp_path])
    _, (name, script, date, duration, batches) = section(tmp_path / "page.html", "runs")
    assert (name, script, duration, batches) == (tmp_path.name, "<train>.py", "1 min 30 s", "7")
    assert re.fullmatch(r"2017-07-1[34] \d\d:[134][05] \S+", date)  # in the zone of this machine


def test_runs_in_folders(tmp_path):
    for name in ("a", "b/c"):
        log(tmp_path / name)
    assert [run.name for run in read_runs([tmp_path])] == ["a", "b/c"]
    assert [run.name for run in read_runs([tmp_path / "a"])] == ["a"]
    assert [run.name for run in read_runs([tmp_path / "b", tmp_path / "a", tmp_path])] == [
        "b/c",
        "a",
    ]


def test_a_log_of_another_writer(tmp_path):
    """That of tensorboardX itself, in its buckets."""
    values = np.random.default_rng(0).normal(size=500)
    with SummaryWriter(str(tmp_path)) as writer:
        for step in range(3):
            writer.add_scalar("loss", 1.0 / (step + 1), step)
            writer.add_histogram("w", np.maximum(values, 0), step)
            writer.add_text("note", "is left out", step)
    (run,) = read_runs([tmp_path])
    assert run.curves["loss"].points() == [(0, 1.0), (1, 0.5), (2, pytest.approx(1 / 3))]
    assert run.histograms["w"]["zeros"].last == (2, np.mean(values <= 0))
    write_report(tmp_path / "report.html", [tmp_path])


def test_files_of_a_resumed_run(tmp_path):
    write(tmp_path, *((k, scalar_summary({"cost": 1.0, "old": 1.0})) for k in range(5, 10)))
    write(tmp_path, (5, None), *((k, scalar_summary({"cost": 2.0})) for k in range(5, 8)))
    (run,) = read_runs([tmp_path])
    assert {tag: curve.points() for tag, curve in run.curves.items()} == {
        "cost": [(5, 2.0), (6, 2.0), (7, 2.0)]
    }


def test_what_cannot_be_read(tmp_path):
    (tmp_path / "empty").mkdir()
    out = tmp_path / "report.html"
    out.write_text("old")
    for folder, message in (("empty", "empty: there are no event files in it"), ("none", "none")):
        with pytest.raises(FileNotFoundError, match=message):
            write_report(out, [tmp_path / folder])
    assert out.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["empty", "report.html"]


def test_damaged_records_are_named(tmp_path):
    log(tmp_path / "run", 0.1)
    (path,) = (tmp_path / "run").iterdir()
    data = bytearray(path.read_bytes())
    data[-10] ^= 1
    path.write_bytes(data)
    with pytest.warns(pd.LoadWarning, match="the checksum of the record at byte"):
        write_report(tmp_path / "report.html", [tmp_path / "run"])
    assert "the checksum of the record at byte" in (tmp_path / "report.html").read_text()


# ---- the page


class Checker(HTMLParser):
    """Fails where elements are not closed in their order."""

    VOID = {"meta", "link", "input"}

    def __init__(self):
        super().__init__()
        self.open, self.text, self.tags = [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def parsed(path):
    checker = Checker()
    checker.feed(path.read_text(encoding="utf-8"))
    checker.close()
    assert checker.open == []
    return checker


@pytest.fixture
def page(tmp_path):
    """The report of two runs, one of which has NaN at its end."""
    log(tmp_path / "logs" / "fast", 0.3)
    log(tmp_path / "logs" / "slow", 0.1, **{"learning rate": 0.25})
    write(tmp_path / "logs" / "slow", (41, scalar_summary({"train/cost": math.nan})))
    write_report(tmp_path / "report.html", [tmp_path / "logs"])
    return tmp_path / "report.html"


def section(path, name):
    """The cells of the tables in a section, row by row."""
    text = path.read_text(encoding="utf-8")
    part = text.partition(f'<section id="{name}">')[2].partition("</section>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", part, re.S)
    plain = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]
    return [[html.unescape(re.sub(r"<[^>]+>", "", cell)) for cell in row] for row in plain]


def test_tables(page):
    assert section(page, "values") == [
        ["value", "fast", "slow"],
        ["cost train", plain(np.float32(math.exp(-12)).item()), "NaN"],
        ["cost test", "0.1", plain(math.exp(-4) + 0.1)],
        ["error train", "0.025", "0.025"],
        ["learning rate", "–", "0.25"],  # noqa: RUF001
    ]
    assert section(page, "settings") == [
        ["setting", "fast", "slow"],
        ["layers", "2", "2"],
        ["rate differs", "0.3", "0.1"],
    ]
    assert section(page, "time")[1] == ["fast", "1", "3", "0.5", "4.5"]
    head, row = section(page, "parameters")[:2]
    assert head[-3:] == ["zeros", "gradient norm", "over time"]
    assert row[0] == "fc.w" and row[-2] == "5" and row[5].endswith(" %")
    first = section(page, "curves")[1]
    assert first[0] == "fast train" and first[1].endswith(" at 1") and first[4].endswith(" at 40")


def test_the_page_needs_nothing_else(page):
    checker = parsed(page)
    for tag, attributes in checker.tags:
        references = [attributes.get(k) for k in ("src", "href", "action", "srcset", "xlink:href")]
        assert all(r is None or r.startswith("data:") for r in references), (tag, attributes)
    text = page.read_text()
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    assert "default-src 'none'" in text and "url(#" in text and "@import" not in text


def test_sparklines_are_svg(page):
    svgs = re.findall(r'<svg class="spark".*?</svg>', page.read_text())
    assert len(svgs) == 2
    for svg in svgs:
        points = ElementTree.fromstring(svg).find("polyline").get("points").split()
        assert len(points) == 4 and points[0].startswith("0.0,") and points[-1].startswith("96.0,")


HOSTILE = "<script>alert(1)</script>&'\"]]><!--"


def test_hostile_names_are_text(tmp_path):
    name = HOSTILE.replace("/", "\N{DIVISION SLASH}")
    events = [(0, s) for s in settings_summaries({HOSTILE: HOSTILE}, [HOSTILE])]
    numbers = {HOSTILE: 1.0, f"train/{HOSTILE}": 2.0}
    events.append((1, scalar_summary(numbers)))
    events.append((1, histogram_summary(f"parameters/{HOSTILE}", np.ones(3))))
    write(tmp_path / "logs" / name, *events)
    log(tmp_path / "logs" / "other")
    write_report(tmp_path / "report.html", [tmp_path / "logs"])
    checker = parsed(tmp_path / "report.html")
    assert [tag for tag, _ in checker.tags].count("script") == 2
    assert "".join(checker.text).count(HOSTILE) >= 5
    (data,) = re.findall(r'id="data">(.*?)</script>', (tmp_path / "report.html").read_text(), re.S)
    content = json.loads(data)
    assert content["runs"] == [name, "other"]
    assert HOSTILE in {chart["title"] for chart in content["charts"]}


def test_an_empty_log(tmp_path):
    write(tmp_path / "run")
    write_report(tmp_path / "report.html", [tmp_path])
    assert "There are no curves in these logs." in "".join(parsed(tmp_path / "report.html").text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (3, "3"),
        (-0.12345678, "\N{MINUS SIGN}0.1235"),
        (1234.5678, "1,235"),
        (1234567, "1,234,567"),
        (2.5e-7, "2.5e-7"),
        (6.02e23, "6.02e23"),
        (math.nan, '<strong class="bad">NaN</strong>'),
        (-math.inf, '<strong class="bad">-inf</strong>'),
        (None, '<span class="none">\N{EN DASH}</span>'),
    ],
)
def test_numbers(value, text):
    assert number(value) == text


# ---- in a browser


@pytest.fixture
def browser(page):
    if executable() is None:
        pytest.skip("there is no Chromium here")
    with served(page.parent) as address, Browser("--window-size=1000,800") as browser:
        browser.open(f"{address}/{page.name}")
        browser.wait_for("document.readyState == 'complete'")
        browser.wait_for("document.querySelectorAll('.chart .line').length > 0")
        yield browser


def lines(browser, chart=0):
    """[run, path] of each curve of a chart."""
    return browser.evaluate(
        f"[...document.querySelectorAll('figure')[{chart}].querySelectorAll('.line:not(.halo)')]"
        ".map(line => [Number(line.dataset.run), line.getAttribute('d')])"
    )


def after(browser, action):
    """Do something and wait until the curves are drawn again."""
    browser.evaluate(
        f"{action}; new Promise(done => requestAnimationFrame(() => setTimeout(done)))"
    )


@pytest.mark.slow
def test_the_curves_are_drawn(browser):
    boxes = browser.evaluate(
        "[...document.querySelectorAll('.chart')].map(chart => Math.min(...["
        "...chart.querySelectorAll('path.line')].map(line => line.getBBox().width)))"
    )
    assert len(boxes) == 3 and min(boxes) > 100
    assert [run for run, _ in lines(browser)] == [0, 1, 0, 1]  # train, then tests above
    assert browser.evaluate("document.querySelectorAll('.chart .odd').length") == 1  # NaN
    texts = browser.evaluate(
        "[...document.querySelectorAll('.chart text')].map(t => t.textContent)"
    )
    assert "0.5" in texts and "10" in texts
    assert browser.console == []


@pytest.mark.slow
def test_the_legend_hides_curves(browser):
    after(browser, "document.querySelector('[data-run=\"0\"]').click()")
    assert [run for run, _ in lines(browser)] == [1, 1]
    pressed = "document.querySelector('[data-run=\"0\"]').getAttribute('aria-pressed')"
    assert browser.evaluate(pressed) == "false"
    after(browser, "document.querySelector('[data-kind=\"test\"]').click()")
    assert [run for run, _ in lines(browser)] == [1]
    after(browser, "document.querySelector('[data-run=\"0\"]').click()")
    assert [run for run, _ in lines(browser)] == [0, 1]
    assert browser.console == []


@pytest.mark.slow
def test_smoothing_and_the_log_scale(browser):
    before = lines(browser)
    after(
        browser,
        "(slider => { slider.value = 0.9; slider.dispatchEvent(new Event('input')); })"
        "(document.getElementById('smoothing'))",
    )
    smoothed = lines(browser)
    assert browser.evaluate("document.getElementById('weight').value") == "0.9"
    assert len(smoothed) == len(before) + 2  # two long curves, behind them the values
    values = browser.evaluate("smooth([...Array(40).keys()], 0.9)")
    weights = 0.9 ** np.arange(39, -1, -1)
    assert values[-1] == pytest.approx(np.average(np.arange(40), weights=weights))
    after(browser, "document.getElementById('log').click()")
    assert lines(browser) != smoothed
    # exp(-0.3 k) is a straight line
    after(browser, "document.getElementById('smoothing').value = 0")
    after(browser, "document.getElementById('smoothing').dispatchEvent(new Event('input'))")
    points = re.findall(r"[ML]([\d.]+) ([\d.]+)", lines(browser)[0][1])
    x, y = np.array(points, float).T
    assert len(x) == 40 and np.abs(np.diff(y, 2)).max() < 0.3
    assert browser.console == []


@pytest.mark.slow
def test_values_under_the_pointer_and_by_keys(browser):
    chart = "document.querySelector('.chart')"
    box = browser.evaluate(f"{chart}.getBoundingClientRect().toJSON()")
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    tip = browser.wait_for("document.querySelector('.tip:not([hidden])')?.innerText")
    step = int(re.search(r"batch (\d+)", tip).group(1))
    assert 15 < step < 25 and "slow train" in tip
    assert f"{math.exp(-0.1 * step):.4f}".rstrip("0") in tip
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
    assert browser.evaluate("document.querySelectorAll('.tip:not([hidden])').length") == 0
    browser.evaluate(f"{chart}.focus()")
    for _ in range(2):
        browser.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight")
    assert (
        browser.evaluate("document.querySelector('.tip:not([hidden]) b').textContent") == "batch 2"
    )
    assert browser.console == []


@pytest.mark.slow
def test_nothing_is_wider_than_a_phone(browser):
    browser.call(
        "Emulation.setDeviceMetricsOverride",
        width=360,
        height=740,
        deviceScaleFactor=1,
        mobile=True,
    )
    browser.wait_for("innerWidth == 360")
    assert browser.evaluate("document.documentElement.scrollWidth") <= 360
    colors = {}
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.call("Emulation.setEmulatedMedia", features=features)
        colors[scheme] = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colors["light"] != colors["dark"]
