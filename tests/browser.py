"""A real browser without a window, driven over its debugging pipe: no driver, no port."""

import base64
import importlib.util
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# The browser reads commands from descriptor 3 and answers on 4. High copies first: one of the pipes
# may itself have one of these numbers.
CONNECT = """
import fcntl, os, sys
copies = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for copy, wanted in zip(copies, (3, 4)):
    os.dup2(copy, wanted)
os.execv(sys.argv[3], sys.argv[3:])
"""

# The least contrast between the colour of a visible text and the first opaque colour under it.
CONTRAST = """(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
  const rgba = colour => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
    .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const under = e => {
    for (; e; e = e.parentElement) {
      const colour = rgba(getComputedStyle(e).backgroundColor);
      if (colour[3] > 250) return colour;
    }
    return [255, 255, 255, 255];
  };
  let least = 21;
  for (const e of document.querySelectorAll("body *:not(svg *):not(option)")) {
    const speaks = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!speaks || !e.checkVisibility()) continue;
    const [a, b] = [light(rgba(getComputedStyle(e).color)), light(under(e))];
    least = Math.min(least, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
  }
  return least;
})()"""

PATIENCE = 30.0  # seconds that an answer may take on a machine that does other things as well


@dataclass
class Page:
    """A loaded page and everything it did while loading."""

    browser: "Browser"
    session: str
    target: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.browser.send(
            "Runtime.evaluate",
            {"expression": expression, "returnByValue": True, "awaitPromise": True},
            self,
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str, *, code: int, text: str = "") -> None:
        """Presses and releases a key, as a person would."""
        event = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        down = {"type": "keyDown", **event, **({"text": text} if text else {})}
        self.browser.send("Input.dispatchKeyEvent", down, self)
        self.browser.send("Input.dispatchKeyEvent", {"type": "keyUp", **event}, self)

    def point(self, query: str, across: float = 0.5, down: float = 0.5) -> None:
        """Moves the mouse over the first element of a query, to these shares of its size."""
        where = (
            f"(e => {{ e.scrollIntoView({{block: 'center', behavior: 'instant'}});"
            " const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; })"
            f"(document.querySelector({query!r}))"
        )
        heard = "new Promise(done => setTimeout(() => done(window.pointed), 100))"
        self.evaluate("addEventListener('pointermove', () => { window.pointed = true; }); 0")
        # On a busy machine a page is laid out late and hears of a move late: until it has, look
        # again where the element is.
        for attempt in range(100):
            self.evaluate(
                f"{where}, new Promise(done => requestAnimationFrame(done)).then(() => 0)"
            )
            box = self.evaluate(where)
            self.evaluate("window.pointed = false")
            x, y = box[0] + across * box[2], box[1] + down * box[3]
            event = {"type": "mouseMoved", "x": x + 0.5 * (attempt % 2), "y": y}
            self.browser.send("Input.dispatchMouseEvent", event, self)
            if self.evaluate(heard) and self.evaluate(where) == box:
                return
        raise AssertionError(f"the page heard of no move over {query}")

    def faults(self, *, contrast: bool = False) -> list[list[str]]:
        """What axe finds serious or critical: its rule, the complaint and the first element.

        Of contrast CONTRAST says more, and in a hundredth of the time on a long page.
        """
        found = importlib.util.find_spec("axe_core_python")
        assert found is not None, "the wheel axe-core-python belongs to the extra test"
        assert found.origin is not None
        self.evaluate(Path(found.origin).with_name("axe.min.js").read_text("utf-8") + ";0")
        return self.evaluate(
            "axe.run(document, {resultTypes: ['violations'], rules: {'color-contrast': "
            f"{{enabled: {str(contrast).lower()}}}}}}}).then(r => r.violations"
            ".filter(v => ['serious', 'critical'].includes(v.impact))"
            ".map(v => [v.id, v.help, v.nodes[0].html.slice(0, 120)]))"
        )

    def check(self, address: str, width: int) -> None:
        """Raises `AssertionError` unless the page asks for nothing, fits and can be read."""
        assert [url for url in self.requests if not url.startswith("data:")] == [address]
        assert self.complaints == []
        assert self.evaluate("innerWidth") == width
        assert self.evaluate("document.documentElement.scrollWidth") <= width
        # Nothing but frames that scroll is wider than the window.
        wide = self.evaluate(
            "[...document.querySelectorAll('body *')].filter(e => e.checkVisibility()"
            " && !e.closest('.scroll, .sheet, pre, .skip, #findings-title') && "
            "e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"
        )
        assert wide == []
        # Words can be read on what lies under them, in the light and in the dark.
        assert self.evaluate(CONTRAST) >= 4.5

    def close(self) -> None:
        """Ends the page, which else goes on working beside the next one."""
        self.browser.send("Target.closeTarget", {"targetId": self.target})

    def screenshot(self, path: Path) -> None:
        """The whole page as an image."""
        answer = self.browser.send(
            "Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True}, self
        )
        path.write_bytes(base64.b64decode(answer["data"]))

    def printed(self) -> bytes:
        """The page as it would be printed, in PDF."""
        answer = self.browser.send("Page.printToPDF", {"preferCSSPageSize": True}, self)
        return base64.b64decode(answer["data"])


class Browser:
    """One process of the browser, which several pages share."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._number = 0
        self._rest = b""
        self._pages: dict[str, Page] = {}

    def open(self, url: str, *, width: int, height: int = 900, dark: bool = False) -> Page:
        """A page of that width in CSS pixels, after it has loaded and drawn itself."""
        target = self.send("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.send("Target.attachToTarget", {"targetId": target, "flatten": True})
        page = self._pages[session["sessionId"]] = Page(self, session["sessionId"], target)
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.send(f"{domain}.enable", {}, page)
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.send("Emulation.setDeviceMetricsOverride", screen, page)
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", {"features": [theme]}, page)
        self.send("Page.navigate", {"url": url}, page)
        end = time.monotonic() + PATIENCE
        while page.evaluate("document.readyState") != "complete" or page.evaluate(
            "location.href"
        ) in ("about:blank", ""):
            assert time.monotonic() < end, f"{url} does not load"
            time.sleep(0.02)  # asking without a pause keeps it from loading
        page.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)))")
        return page

    def send(self, method: str, parameters: dict[str, Any], page: Page | None = None) -> Any:
        """The answer to a command; events that arrive before it are kept by their pages."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if page is not None:
            message["sessionId"] = page.session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        for answer in self._messages():
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self._keep(answer)
        raise AssertionError(f"the browser closed before it answered {method}")

    def _messages(self) -> Iterator[dict[str, Any]]:
        end = time.monotonic() + PATIENCE
        while True:
            message, found, rest = self._rest.partition(b"\0")
            if found:
                self._rest = rest
                yield json.loads(message)
                continue
            ready, _, _ = select.select([self._answers], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            more = os.read(self._answers, 1 << 20)
            if not more:
                return
            self._rest += more

    def _keep(self, event: dict[str, Any]) -> None:
        page = self._pages.get(event.get("sessionId", ""))
        if page is None:
            return
        what = event.get("params", {})
        match event.get("method"):
            case "Network.requestWillBeSent":
                page.requests.append(what["request"]["url"])
            case "Runtime.exceptionThrown":
                page.complaints.append(json.dumps(what["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if what["type"] in ("error", "warning", "assert"):
                page.complaints.append(json.dumps(what["args"]))
            case "Log.entryAdded" if what["entry"]["level"] in ("error", "warning"):
                page.complaints.append(what["entry"]["text"])


@contextmanager
def browser() -> Iterator[Browser]:
    """Debian's browser, started and, afterwards, ended."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    assert path is not None, "tests that need a browser are marked so, and skipped without one"
    commands_in, commands_out = os.pipe()
    answers_in, answers_out = os.pipe()

    profile = tempfile.mkdtemp(prefix="tacit-browser-")
    options = [
        *("--headless", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"),
        *("--no-first-run", "--disable-extensions", "--disable-background-networking"),
        *("--disable-dev-shm-usage", "--font-render-hinting=none", f"--user-data-dir={profile}"),
        # The sandbox cannot be set up by root, who runs the tests in a container.
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
    ]
    # A small program between puts the pipes where Chromium wants them, on 3 and 4. Doing so in
    # the forked child would fork a process in which JAX may be running threads.
    ends = [str(commands_in), str(answers_out)]
    process = subprocess.Popen(
        [sys.executable, "-c", CONNECT, *ends, path, *options, "about:blank"],
        pass_fds=(commands_in, answers_out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(commands_in)
    os.close(answers_out)
    driver = Browser(commands_out, answers_in)
    try:
        yield driver
        driver.send("Browser.close", {})
    finally:
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(commands_out)
        os.close(answers_in)
        shutil.rmtree(profile, ignore_errors=True)
