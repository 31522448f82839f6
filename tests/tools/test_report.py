#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The reports of pp_bench and tryst-perf sched: they have the figures that the tool printed, hostile texts stay texts, and
nothing comes from elsewhere. With `browser` the same pages in headless Chromium: pictures, zoom, no error, and no
horizontal scrolling at the width of a telephone. Skips (77) where there is no browser.
Usage: test_report.py page|browser <tryst-perf> [<pp_bench>]"""
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
VOID = {"meta", "link", "input", "br"}
HOSTILE = "a</script><img src=x onerror=alert(1)>&\"'\tb"
# Appended to a page, which becomes a frame as wide as a telephone: it uses the timeline and reports to the page around.
PROBE = """<script>
window.addEventListener("load", async () => {
    const box = document.querySelector(".zoom"), seen = {}, rect = box.getBoundingClientRect();
    box.setPointerCapture = () => {};
    window.requestAnimationFrame = act => setTimeout(act, 0); /* --dump-dom draws no frames */
    const after = async act => {
        act();
        await new Promise(done => setTimeout(done, 60));
        return box.textContent.match(/: (\\S+) to (\\S+) shown/).slice(1).map(Number);
    };
    const key = name => () => box.dispatchEvent(new KeyboardEvent("keydown", {key: name}));
    const press = name => () => document.querySelector(`button[aria-label='${name}']`).click();
    const pointer = (type, id, x) => box.dispatchEvent(new PointerEvent(type, {pointerId: id, clientX: rect.left + x,
        clientY: rect.top + 20, bubbles: true}));
    seen.start = await after(() => {});
    seen.keys = await after(key("+"));
    seen.home = await after(key("Home"));
    seen.wheel = await after(() => box.dispatchEvent(new WheelEvent("wheel", {deltaY: -200, clientX: rect.left + 9})));
    seen.drag = await after(() => { pointer("pointerdown", 1, 100); pointer("pointermove", 1, 60);
        pointer("pointerup", 1, 60); });
    seen.step = await after(press("show the step"));
    seen.button = await after(press("zoom in"));
    await after(key("Home"));
    seen.pinch = await after(() => { pointer("pointerdown", 1, 100); pointer("pointerdown", 2, 140);
        pointer("pointermove", 2, 180); pointer("pointerup", 1, 100); pointer("pointerup", 2, 180); });
    seen.all = await after(key("End"));
    for (let i = 0; i < 5; i++) /* the first bar has room for its name */
        await after(() => box.dispatchEvent(new WheelEvent("wheel", {deltaY: -200, clientX: rect.left})));
    seen.label = box.querySelector("text:not(.strong)").textContent;
    seen.width = [innerWidth, document.documentElement.scrollWidth];
    seen.pictures = document.querySelectorAll("svg").length;
    seen.images = document.querySelectorAll("img").length;
    seen.words = document.body.innerText;
    parent.document.getElementById("seen").textContent = JSON.stringify(seen);
});
</script></body>"""

wrong = []


def check(true, text):
    if not true:
        wrong.append(text)


class Page(html.parser.HTMLParser):
    """The tables of a page, by caption, its text, and whether its elements nest."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tables, self.words, self.cell, self.names = [], {}, "", None, set()
        self.feed(text)
        self.close()
        check(not self.open, f"elements that are not closed: {self.open}")

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "caption":
            self.cell = ""
        if tag == "tr":
            self.row = []
        if tag in ("td", "th"):
            self.cell = ""

    def handle_endtag(self, tag):
        check(self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}")
        if self.open:
            self.open.pop()
        if tag == "caption":
            self.rows = self.tables.setdefault(self.cell, [])
        if tag in ("td", "th"):
            self.row.append(self.cell)
        if tag == "tr":
            self.rows.append(self.row)

    def handle_data(self, data):
        if "script" not in self.open and "style" not in self.open:
            self.words += data
            if self.cell is not None:
                self.cell += data

def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    check(done.returncode == 0, f"{' '.join(command)}: {done.returncode}, {done.stderr}")
    return done.stdout


def read_text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def read(path):
    text = read_text(path)
    check("http" not in text.lower(), f"{path}: a reference to a network")
    check(not re.search(r"\b(src|href)=(?!\"data:,\"|x )", text), f"{path}: a reference to another file")
    page = Page(text)
    check("img" not in page.names, f"{path}: a text became an element")
    for name, rows in page.tables.items():
        check(len(rows) > 1 and len({len(row) for row in rows}) == 1, f"{path}: the table {name} has {rows[:3]}")
    return page


def has(page, words):
    check(words in page.words, f"the report lacks '{words}'")


def bench_report(bench, folder):
    """pp_bench: its page, and the figures that it printed."""
    data = os.path.join(folder, "data <b>&amp;'.txt")
    with open(data, "w", encoding="utf-8") as file:
        file.write("the quick brown fox jumps over the lazy dog " * 20)
    path = os.path.join(folder, "bench.html")
    out = run(bench, "-n", "2", "--model", "mlp", "--layers", "4", "--hidden", "16", "--seq", "8", "--steps", "5",
              "--data", data, "--check", "--report", path)
    page = read(path)
    has(page, data)
    has(page, "--data '" + data.replace("'", "'\\''") + "'")
    loss = re.search(r"^(loss \S+ -> \S+) +(\S+ k tokens/s) +(weights \S+)$", out, re.M)
    check(loss, f"no line of the loss in {out}")
    has(page, out[out.index("\n      compute, s"):loss.end()])
    first, last = re.findall(r"\d+\.\d+", loss[1])
    losses = page.tables["Loss by step"]
    check([losses[1][1], losses[-1][1], len(losses)] == [first, last, 6], f"losses {losses}, printed {loss[0]}")
    links = {row[0]: int(row[1]) for row in page.tables["bytes per link"][1:]}
    # 4 micro-batch windows of 8 bytes, 16 floats each; 8 micro-batches, 5 steps; a loss is 8 bytes; two words of an agreement
    check(links["0 to 1"] == 4 * 8 * 16 * 4 * 8 * 5 + 2 and links["1 to 0"] == links["0 to 1"] + 5 * 8, f"links {links}")
    spans = page.tables["spans of the timeline"][1:]
    check({row[5] for row in spans} >= {"0", "-1"}, "the timeline has no neighbour of its step")
    for name in ("forward", "backward", "send", "receive", "update"):
        check(any(row[4] == name for row in spans), f"the timeline has no {name}")
    return path


def sleep_report(bench, folder):
    """Stages that sleep have no loss."""
    path = os.path.join(folder, "sleep.html")
    figures = os.path.join(folder, "sleep.json")
    out = run(bench, "-n", "2", "--model", "sleep:0.1,0.1", "--layers", "2", "--steps", "3", "--report", path,
              "--json", figures)
    check("loss" not in out and "weights" not in out, f"a loss of stages that sleep: {out}")
    page = read(path)
    steps = page.tables["Time of each step"][1:]
    check([row[1] for row in steps] == ["-"] * 3, f"a loss of stages that sleep in the page: {steps}")
    with open(figures, encoding="utf-8") as file:
        check([step["loss"] for step in json.load(file)["steps"]] == [None] * 3, "a loss of stages that sleep in the JSON")


def sched_report(perf, folder, *more):
    """tryst-perf sched: its page, and the figures that it printed."""
    profile = os.path.join(folder, "step.json")
    nodes = [{"name": HOSTILE, "seconds": .01}, {"name": "g1", "bytes": 3000, "after": [HOSTILE]},
             {"name": "b0", "seconds": .01, "after": [HOSTILE]}, {"name": "g0", "bytes": 1000, "after": ["b0"]},
             {"name": "f0", "seconds": .02, "after": ["b0", "g0"]}, {"name": "f1", "seconds": .02, "after": ["f0", "g1"]}]
    with open(profile, "w", encoding="utf-8") as file:
        json.dump({"tryst_profile": 1, "nodes": nodes}, file)
    path = os.path.join(folder, "sched.html")
    out = run(perf, "sched", "--profile", profile, "--report", path, *more)
    page = read(path)
    has(page, out)
    optimum = re.search(r"optimum.*?(\d+\.\d+) s", out)[1]
    column = 1 if "--simulate" in more else 2
    printed = [line.split() for line in out.splitlines() if re.match(r"^ +(fifo|buckets|priority|preempt|ours) ", line)]
    printed = [[line[0], line[column], optimum] for line in printed]
    check(page.tables["steps"][1:] == printed and len(printed) == 4, f"bars {page.tables['steps']}, printed {printed}")
    names = {row[0] for row in page.tables["actions and operations"][1:]}
    check(HOSTILE.replace("\t", "\ufffd") in names, f"the hostile name is not among {names}")
    check([row[0] for row in page.tables["operations, the most urgent first"][1:]] == ["g0", "g1"], "order of urgency")
    return path


def show(browser, path, folder, pictures, label=""):
    """Use the page in the browser; errors of its script are wrong. Returns its words."""
    shown = os.path.join(folder, "shown.html")
    with open(shown, "w", encoding="utf-8") as file:
        page = html.escape(read_text(path).replace("</body>", PROBE))
        file.write(f'<pre id="seen">nothing</pre><iframe style="width:390px;height:844px;border:0" srcdoc="{page}"></iframe>')
    done = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + folder + "/home",
                           "--disable-background-networking", "--disable-component-update", "--no-first-run",
                           "--virtual-time-budget=3000", "--enable-logging=stderr", "--dump-dom", "file://" + shown],
                          capture_output=True, text=True, timeout=100, check=False)
    errors = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    check(done.returncode == 0 and not errors, f"{browser}: {done.returncode}, {errors}")
    found = re.search(r'<pre id="seen">(\{.*?)</pre>', done.stdout, re.S)
    if not found:
        wrong.append("the page's script did not end")
        return ""
    seen = json.loads(html.unescape(found[1]))
    words = seen.pop("words")
    check(not label or label in seen["label"], f"the label is {seen['label']}, not {label}")
    length = {act: seen[act][1] - seen[act][0] for act in seen if isinstance(seen[act], list)}
    for act in ("keys", "wheel", "button", "pinch"):
        check(length[act] < .8 * length["start"], f"{act} did not zoom: {seen}")
    check(seen["drag"][0] > seen["wheel"][0], f"dragging did not move: {seen}")
    check(seen["home"] == seen["step"] == seen["start"], f"Home and Step do not lead back: {seen}")
    check(length["all"] >= length["start"], f"End does not show all: {seen}")
    check(seen["width"][0] == 390 >= seen["width"][1], f"the page is wider than a telephone: {seen['width']}")
    check(seen["pictures"] == pictures and seen["images"] == 0, f"{seen['pictures']} pictures, {seen['images']} images")
    return words


def main():
    mode, perf, bench = sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None
    names = [shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")]
    browser = next(filter(None, names), None)
    if mode == "browser" and not browser:
        print("skipped: there is no chromium, chromium-browser or google-chrome")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder:
        simulated = sched_report(perf, folder, "--simulate", "--gbit", "0.001")
        if mode == "browser":
            words = show(browser, simulated, folder, 2, HOSTILE.replace("\t", "\ufffd"))
            for row in Page(read_text(simulated)).tables["steps"][1:]:
                check(row[0] in words and row[1] in words, f"the picture lacks {row}")
        else:
            sched_report(perf, folder, "-n", "2", "-i", "1", "-w", "1", "--transport", "shm")
        if bench:
            path = bench_report(bench, folder)
            if mode == "browser":
                words = show(browser, path, folder, 3)
                for row in Page(read_text(path)).tables["bytes per link"][1:]:
                    check(f"{int(row[1]):,}" in words, f"the picture lacks {row}")
            else:
                sleep_report(bench, folder)
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)


main()
