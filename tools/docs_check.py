"""Open the built site in a real browser, and fail on what a reader would stumble over.

Every page: no error on the console, nothing fetched from elsewhere, pictures that load, axe without a violation in light and in
dark. Once: search finds a rule, and the keyboard alone reaches navigation, search and content. Screenshots go to the second
folder, for people to look at.
"""

import argparse
import functools
import http.server
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, TimeoutError, ViewportSize, sync_playwright  # noqa: A004 - its own

ROOT = Path(__file__).resolve().parents[1]
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
CHROMIUM = Path("/usr/bin/chromium")
STANDARDS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
ALIKE = {"runbooks", "decisions"}
"""Folders whose pages have the same parts: axe, which takes longest, judges the first one."""
SHOWN = (
    "index",
    "tutorial",
    "explanation/hand-off",
    "explanation/stacks",
    "how-to/preflight",
    "observability",
    "reference/alerts",
    "reference/cli",
    "reference/deployment",
    "reference/library",
    "reference/rules",
)
"""Pages with everything that the theme has: they are also looked at in dark, and pictures are taken of them."""
FOUND = """wanted => [...document.querySelectorAll("*")]
    .filter(host => host.shadowRoot)
    .some(host => [...host.shadowRoot.querySelectorAll("a")].some(link => link.href.includes(wanted)))"""
"""Whether the results, which the theme keeps to itself, have a link to a page."""
SCREEN: ViewportSize = {"width": 1280, "height": 1300}
"""High enough for the navigation: axe takes an entry that is scrolled half out of sight for one that is too small."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path)
    parser.add_argument("screenshots", type=Path)
    arguments = parser.parse_args()
    if not CHROMIUM.exists():
        print(f"error: no `{CHROMIUM}`. help: .ci/install-debian-packages", file=sys.stderr)
        return 1
    pages = sorted(arguments.site.rglob("*.html"))
    if not pages:
        print(f"error: no site in `{arguments.site}`. help: make site", file=sys.stderr)
        return 1
    started = time.monotonic()
    arguments.screenshots.mkdir(parents=True, exist_ok=True)
    troubles: list[str] = []
    with served(arguments.site) as address, sync_playwright() as playwright:
        # the flag is for containers, in which Chromium may not make its sandbox
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        visit = Visit(address=address, site=arguments.site, screenshots=arguments.screenshots)
        shown = [arguments.site / f"{name}.html" for name in SHOWN]
        troubles += look_at(browser, visit, pages, "light")
        troubles += look_at(browser, visit, shown, "dark")
        troubles += search(browser, address, arguments.screenshots)
        troubles += keyboard(browser, address)
        troubles += narrow(browser, address, arguments.screenshots)
        browser.close()
    seconds = time.monotonic() - started
    for trouble in dict.fromkeys(troubles):
        print(f"error: {trouble}", file=sys.stderr)
    print(
        f"{len(pages)} pages in light, {len(SHOWN)} in dark, {len(set(troubles))} troubles, {seconds:.0f} s"
    )
    return 1 if troubles else 0


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve `folder` on a free port of this machine."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing about each request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """Where the site is, and where its pictures go."""

    address: str
    site: Path
    screenshots: Path


def look_at(
    browser: Browser, visit: Visit, pages: list[Path], scheme: Literal["light", "dark"]
) -> Iterator[str]:
    """Yield what is wrong with any page in one colour scheme."""
    context = browser.new_context(color_scheme=scheme, viewport=SCREEN)
    page = context.new_page()
    heard: list[str] = []
    page.on("console", lambda message: heard.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: heard.append(str(error)))
    # what a page still loads when the next one is opened is given up by the browser itself
    page.on(
        "requestfailed",
        lambda request: heard.extend(
            [f"cannot load {request.url}"] * (request.failure != "net::ERR_ABORTED")
        ),
    )
    page.on("request", lambda request: heard.extend(_foreign(request.url, visit.address)))
    judged: set[str] = set()
    for file in pages:
        name = str(file.relative_to(visit.site).with_suffix(""))
        heard.clear()
        page.goto(f"{visit.address}/{file.relative_to(visit.site)}", wait_until="load")
        yield from (f"{name} ({scheme}): {text}" for text in heard)
        broken = page.eval_on_selector_all("img", "all => all.filter(i => !i.naturalWidth).map(i => i.src)")
        yield from (f"{name}: picture `{source}` does not load" for source in broken)
        folder = name.split("/", 1)[0]
        if folder not in ALIKE or folder not in judged:
            yield from (f"{name} ({scheme}): {violation}" for violation in axe(page))
        judged.add(folder)
        if name in SHOWN:
            page.screenshot(path=visit.screenshots / f"{name.replace('/', '-')}-{scheme}.png")
    context.close()


def _foreign(url: str, address: str) -> list[str]:
    parts = urlsplit(url)
    return [] if url.startswith(address) or parts.scheme in {"data", "blob"} else [f"fetches {url}"]


def axe(page: Page) -> Iterator[str]:
    """Yield what axe finds against WCAG 2.2 AA."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    result = page.evaluate(
        "async tags => (await axe.run(document, {runOnly: tags, resultTypes: ['violations']})).violations",
        STANDARDS,
    )
    for violation in result:
        places = ", ".join(str(node["target"][0]) for node in violation["nodes"][:3])
        yield f"{violation['id']}: {violation['help']} ({len(violation['nodes'])} places, such as {places})"


def search(browser: Browser, address: str, screenshots: Path) -> Iterator[str]:
    """Yield what is wrong with the search, used as a reader does."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(f"{address}/index.html", wait_until="load")
    for words, wanted in (
        ("DPD-NET-003", "rules"),
        ("training plan", "training-plan"),
        ("EfaSecurityGroup", "library"),
    ):
        page.keyboard.press("/")
        page.wait_for_function("() => document.activeElement.shadowRoot")
        page.keyboard.type(words)
        try:
            page.wait_for_function(FOUND, arg=wanted, timeout=20_000)
        except TimeoutError as error:
            yield f"search for `{words}` does not find `{wanted}`: {str(error).splitlines()[0]}"
        page.screenshot(path=screenshots / f"search-{wanted}.png")
        page.reload(wait_until="load")
    page.close()


def keyboard(browser: Browser, address: str) -> Iterator[str]:
    """Yield what the keyboard alone cannot do."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(f"{address}/explanation/hand-off.html", wait_until="load")
    page.keyboard.press("Tab")
    first = page.evaluate("document.activeElement.textContent.trim()")
    if "Skip" not in first:
        yield f"the first stop of the keyboard is `{first}`, not a link to the content"
    reached = set()
    for _ in range(80):
        place = page.evaluate(
            "() => { const e = document.activeElement; const s = getComputedStyle(e); return [e.tagName, (e.getAttribute('href') || ''),"
            " s.outlineStyle !== 'none' || s.boxShadow !== 'none' || e.matches(':focus-visible')] }"
        )
        reached.add(place[1])
        if place[0] != "BODY" and not place[2]:
            yield f"keyboard focus is not visible on <{place[0].lower()}> `{place[1]}`"
        page.keyboard.press("Tab")
    for wanted in ("tutorial.html", "published-numbers.html"):
        if not any(wanted in href for href in reached):
            yield f"eighty stops of the keyboard do not reach `{wanted}`"
    page.close()


def narrow(browser: Browser, address: str, screenshots: Path) -> Iterator[str]:
    """Yield the pages that a phone has to scroll sideways."""
    page = browser.new_page(viewport={"width": 390, "height": 844})
    for name in ("index", "reference/rules", "how-to/preflight", "explanation/hand-off"):
        page.goto(f"{address}/{name}.html", wait_until="load")
        if page.evaluate("document.documentElement.scrollWidth > window.innerWidth + 1"):
            yield f"{name} is wider than a phone"
    page.screenshot(path=screenshots / "narrow.png")
    page.close()


if __name__ == "__main__":
    sys.exit(main())
