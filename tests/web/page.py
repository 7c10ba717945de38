"""The page in the browser, and what the tests do with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

WIDE, PHONE = (1280, 800), (390, 844)


class Page:
    """The page in a Chromium that Selenium drives."""

    def __init__(self, driver: Any, address: str):
        self.driver, self.address = driver, address

    def resize(self, width: int, height: int) -> None:
        """The size of the window; a narrow one is a phone with a touch screen."""
        is_phone = width < 500
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": is_phone})

    def media(self, scheme: str = "light", motion: bool = False) -> None:
        """The color scheme that the user prefers, and whether new answers are played or shown at once."""
        features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "no-preference" if motion else "reduce"}
        chosen = [{"name": name, "value": value} for name, value in features.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": chosen})

    def open(self, tab: str = "") -> None:
        self.driver.get("about:blank")
        self.driver.get(f"{self.address}/#{tab}" if tab else self.address)

    @contextmanager
    def without_api(self) -> Iterator[None]:
        """As if the server had stopped after it gave the page's files."""
        self.driver.get("about:blank")
        self.driver.execute_cdp_cmd("Network.enable", {})
        self.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/api/*"]})
        try:
            yield
        finally:
            self.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})

    def find(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def all(self, selector: str) -> list[Any]:
        return self.driver.find_elements("css selector", selector)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def click(self, selector: str) -> None:
        """A click on an element that may be outside of the window."""
        self.run("arguments[0].click()", self.find(selector))

    def texts(self, selector: str) -> list[str]:
        return self.run("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent.trim())", selector)

    def box(self, selector: str) -> dict[str, float]:
        """Left, top, right, bottom, width and height of an element in the window."""
        return self.run("return document.querySelector(arguments[0]).getBoundingClientRect().toJSON()", selector)

    def until(self, condition: Callable[[], Any], seconds: float = 40) -> Any:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            seen = condition()
            if seen:
                return seen
            time.sleep(0.1)
        raise AssertionError(f"nothing happened for {seconds} s; the page says {self.find('#problem').text!r}")

    def press(self, *keys: str) -> None:
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def drag(self, canvas: Any, *positions: tuple[float, float]) -> None:
        """Press at the first position (fractions of the canvas), move through the others, release."""
        from selenium.webdriver import ActionChains

        width, height = canvas.size["width"], canvas.size["height"]
        chain = ActionChains(self.driver, duration=20)
        for i, (x, y) in enumerate(positions):
            chain.move_to_element_with_offset(canvas, round((x - 0.5) * width), round((y - 0.5) * height))
            if i == 0:
                chain.click_and_hold()
        chain.release().perform()

    def slide(self, slider: Any, value: float) -> None:
        """Set a range like a drag of its thumb."""
        self.run("arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input', {bubbles: true}))",
                 slider, value)  # fmt: skip

    def drop(self, selector: str, name: str, content: bytes, kind: str) -> None:
        """Drop a file on an element."""
        self.run(
            "const [target, name, bytes, type] = arguments, data = new DataTransfer();"
            "data.items.add(new File([new Uint8Array(bytes)], name, {type}));"
            "for (const event of ['dragover', 'drop']) document.querySelector(target)"
            ".dispatchEvent(new DragEvent(event, {dataTransfer: data, bubbles: true, cancelable: true}))",
            selector, name, list(content), kind,
        )  # fmt: skip

    def ink(self, canvas: Any) -> int:
        """The number of pixels that are drawn."""
        return self.run(
            "const c = arguments[0], d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
            "let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 20; return n",
            canvas,
        )

    def losses(self, panel: str) -> list[float]:
        """The representation losses in the captions of the answers."""
        captions = self.texts(f"#panel-{panel} .answers .facts")
        return [float(text.rpartition("loss ")[2]) for text in captions if "loss " in text]

    def settled(self, panel: str) -> None:
        """Wait until all answers are shown and nothing plays."""
        facts = f"#panel-{panel} .answers .facts"
        self.until(lambda: self.texts(facts) and all(self.texts(facts)))
        self.until(lambda: self.texts(f"#panel-{panel} .play") == ["Play"])

    def errors(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
