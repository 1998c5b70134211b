"""Headless Chromium over the DevTools protocol, with Python's standard library alone: for check-report and screenshots."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


def binary():
    """Where Chromium is; none where it is not."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


REPORT_IS_DRAWN = "document.readyState === 'complete' && !!document.querySelector('.views')?.childElementCount"


class Browser:
    """Chromium with --remote-debugging-pipe: messages end with a zero byte on descriptors 3 and 4."""

    def __init__(self, path):
        to_browser, self.send_end = os.pipe()
        self.receive_end, from_browser = os.pipe()
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)

        def ends():
            os.dup2(to_browser, 13)
            os.dup2(from_browser, 14)
            os.dup2(13, 3)
            os.dup2(14, 4)

        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
                   f"--user-data-dir={self.profile.name}"]
        self.process = subprocess.Popen([path, *options], preexec_fn=ends, close_fds=False,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.number, self.buffer, self.events, self.session, self.target = 0, b"", [], None, None
        self.window = (1280, 900, "light", 1)

    def message(self, timeout=120):
        while b"\0" not in self.buffer:
            if not select.select([self.receive_end], [], [], timeout)[0]:
                raise TimeoutError("Chromium does not answer")
            self.buffer += os.read(self.receive_end, 1 << 20)
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        sent = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            sent["sessionId"] = self.session
        os.write(self.send_end, json.dumps(sent).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def open(self, url, is_drawn=REPORT_IS_DRAWN):
        """Opens a page in a tab of its own, in place of the last one; the seconds until its first view is drawn."""
        last, self.session = self.target, None
        self.target = self.call("Target.createTarget", url="about:blank")["targetId"]
        if last:
            self.call("Target.closeTarget", targetId=last)
        self.session = self.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.look(*self.window)
        started = time.monotonic()
        self.call("Page.navigate", url=url)
        self.until(is_drawn, 120)
        return time.monotonic() - started

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def until(self, expression, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.value(expression):
                return
            time.sleep(0.02)
        raise AssertionError(f"never came true: {expression}")

    def look(self, width, height, scheme, scale=1):
        """A window of this size and colour scheme, in the tabs that are opened later too."""
        self.window = (width, height, scheme, scale)
        if not self.session:
            return
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale,
                  mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        time.sleep(0.35)

    def screenshot(self, path, whole=False):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def errors(self):
        found = []
        for event in self.events:
            parameters = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                details = parameters["exceptionDetails"]
                found.append(details.get("exception", {}).get("description", details["text"]))
            if event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
                found.append(parameters["entry"]["text"])
            if event.get("method") == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
                found.append(str(parameters["args"]))
        return found

    def requests(self):
        """The addresses that pages have asked for, their own included."""
        sent = (event for event in self.events if event.get("method") == "Network.requestWillBeSent")
        return [event["params"]["request"]["url"] for event in sent]

    def close(self):
        self.process.kill()
        self.process.wait()
