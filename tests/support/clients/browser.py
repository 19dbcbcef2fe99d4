"""A headless Chromium, driven over its debugging pipe (Chrome DevTools Protocol: JSON texts, each ended by a 0)."""

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.running import LONG, until

KEYS: Final = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowRight": 39}


def chromium() -> str:
    """Where Chromium is; skips where there is none."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    # `make test` installs it for root; what the page asks for is tested without a browser in any case
    pytest.skip("install chromium to test the live page in a browser")


class Browser:
    """One window with one page."""

    def __init__(self, folder: Path) -> None:
        program = chromium()
        (commands, self._say), (self._hear, answers) = os.pipe(), os.pipe()
        arguments = [
            program, "--headless", "--disable-gpu", "--no-first-run", "--no-default-browser-check",
            "--disable-background-networking", "--remote-debugging-pipe", f"--user-data-dir={folder}",
            *(["--no-sandbox"] if os.getuid() == 0 else []), "about:blank",
        ]  # fmt: skip
        # Chromium reads commands at descriptor 3 and answers at 4.
        shell = f'exec "$@" 3<&{commands} 4>&{answers}'
        with (folder.parent / "chromium.log").open("wb") as log:
            self._process = subprocess.Popen(
                ["/bin/bash", "-c", shell, "bash", *arguments], pass_fds=(commands, answers), stdout=log, stderr=log
            )
        os.close(commands)
        os.close(answers)
        self._rest, self._number, self._session = b"", 0, ""
        self.complaints: list[str] = []  # of scripts, and of the policy that says what a page may load
        targets = self._command("Target.getTargets")["targetInfos"]
        self._page = next(target["targetId"] for target in targets if target["type"] == "page")
        self.new_page()

    def new_page(self) -> None:
        """Show an empty page in place of the one before, which is closed: no test sees what another has left."""
        self._session = ""
        left, self._page = self._page, self._command("Target.createTarget", url="about:blank")["targetId"]
        self._command("Target.closeTarget", targetId=left)
        self._session = self._command("Target.attachToTarget", targetId=self._page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._command(f"{domain}.enable")
        self.complaints.clear()

    def close(self) -> None:
        self._process.kill()
        self._process.wait(LONG)
        os.close(self._say)
        os.close(self._hear)

    def open(self, url: str) -> None:
        self._command("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """The value of an expression of JavaScript."""
        done = self._command("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def until(self, script: str) -> None:
        """Wait until an expression is true."""
        until(lambda: self.run(script), script)

    def text(self, selector: str) -> str:
        """What a user reads of an element."""
        return str(self.run(f"document.querySelector({json.dumps(selector)}).innerText"))

    def texts(self, selector: str) -> list[str]:
        """What a user reads of all such elements."""
        return list(self.run(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.innerText)"))

    def press(self, *keys: str) -> None:
        """Press keys: of one character, or by name."""
        for key in keys:
            shown = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
            named = {"key": key, **({"windowsVirtualKeyCode": KEYS[key]} if key in KEYS else {})}
            self._command("Input.dispatchKeyEvent", type="keyDown", **named, **shown)
            self._command("Input.dispatchKeyEvent", type="keyUp", **named)

    def nameless(self) -> list[str]:
        """The roles of controls for which a screen reader has no name."""
        kinds = {"button", "checkbox", "combobox", "radio", "searchbox", "spinbutton", "tab", "table", "textbox"}
        every = self._command("Accessibility.getFullAXTree")["nodes"]
        shown = [node for node in every if not node["ignored"] and node["role"]["value"] in kinds]
        return [node["role"]["value"] for node in shown if not node.get("name", {}).get("value")]

    def focus(self, selector: str) -> None:
        self.run(f"document.querySelector({json.dumps(selector)}).focus()")

    def size(self, width: int, height: int, dark: bool = False) -> None:
        """Make the window so large; prefer dark or light colours."""
        self._command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._command("Emulation.setEmulatedMedia", features=scheme)

    def picture(self) -> bytes:
        """The whole page as a PNG."""
        return base64.b64decode(self._command("Page.captureScreenshot", captureBeyondViewport=True)["data"])

    def _command(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        command = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._say, json.dumps(command).encode() + b"\0")
        while (answer := self._message()).get("id") != self._number:
            self._note(answer)
        assert "error" not in answer, (method, answer["error"])
        return dict(answer["result"])

    def _note(self, event: dict[str, Any]) -> None:
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(str(event["params"]["exceptionDetails"]))
            case "Log.entryAdded" if event["params"]["entry"]["source"] != "network":
                self.complaints.append(event["params"]["entry"]["text"])

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            read = os.read(self._hear, 1 << 20)
            assert read, "the browser is gone; see chromium.log"
            self._rest += read
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))
