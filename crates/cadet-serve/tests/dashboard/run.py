"""The dashboard in a real browser: every page, light and dark, wide and narrow.

    python3 crates/cadet-serve/tests/dashboard/run.py            the test
    python3 crates/cadet-serve/tests/dashboard/run.py --shots D  writes overview.png and item.png to D

Wanted: a built `cadet` (see ../process/service.py), Chromium (CHROMIUM, or /usr/bin/chromium) and npm, which
../process/tools.sh installs on Debian. What else is needed is installed into target/dashboard/ by pip and npm.
"""

import contextlib
import gzip
import http.client
import http.server
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "process"))
import service
from service import ITEM, USER, build_world, serving

WORK = service.TARGET / "dashboard"
PLAYWRIGHT, AXE = "1.65.2", "4.14.1"
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--no-first-run"]
BUDGET = 60_000
PAGES = {
    "overview": "#/overview",
    "items": "#/items",
    "item": f"#/item?id={ITEM}",
    "users": "#/users",
    "user": f"#/user?id={USER}&item={ITEM}",
    "rerank": f"#/rerank?user={USER}",
    "models": "#/models",
    "ingest": "#/ingest",
    "api": "#/api?at=post+%2Fv1%2Fscore",
}
failures = []


def check(good, text):
    """Notes what is wrong and goes on: one run shows all."""
    if not good:
        failures.append(text)
        print("  FAILED", text)


def set_up():
    """Installs the browser's driver and the accessibility rules, and starts again among them."""
    service.among("dashboard", f"playwright=={PLAYWRIGHT}")
    if not (WORK / "node_modules" / "axe-core").exists():
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", WORK, f"axe-core@{AXE}"],
                       check=True)


@contextlib.contextmanager
def under(prefix, address):
    """A reverse proxy that shows the service beneath a path."""

    class Proxy(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def forward(self):
            if not self.path.startswith(prefix):
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            kept = ("accept", "accept-encoding", "content-type", "authorization", "cookie", "if-none-match")
            headers = {k: v for k, v in self.headers.items() if k.lower() in kept}
            beyond = http.client.HTTPConnection(address, timeout=30)
            beyond.request(self.command, "/" + self.path[len(prefix):], body or None, headers)
            answer = beyond.getresponse()
            data = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = forward

    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{proxy.server_port}{prefix}"
    finally:
        proxy.shutdown()


@contextlib.contextmanager
def traffic(address):
    """People are asked about and shown things meanwhile."""
    stop = threading.Event()

    def go():
        rng = random.Random(3)
        turn = 0
        while not stop.is_set():
            turn += 1
            user = f"u{1000 + rng.randrange(1_230)}"
            items = [f"sku-{100 + rng.randrange(50)}" for _ in range(10)]
            asked = {"user_id": user, "item_ids": items}
            shown = {"exposures": [{"user_id": user, "item_id": item} for item in items[: rng.randrange(1, 4)]]}
            for path, body in [("v1/score", asked), ("v1/score", asked), ("v1/exposures", shown)]:
                if path == "v1/exposures" and turn % 4:
                    continue
                request = urllib.request.Request(f"http://{address}/{path}", json.dumps(body).encode(),
                                                 {"Content-Type": "application/json"})
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(request).read()
            time.sleep(0.004 + 0.02 * rng.random())

    worker = threading.Thread(target=go, daemon=True)
    worker.start()
    try:
        yield
    finally:
        stop.set()
        worker.join()


class Visit:
    """A browser window, and all that goes wrong in it."""

    def __init__(self, browser, theme, width):
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme,
                                           reduced_motion="reduce", accept_downloads=True)
        self.page = self.context.new_page()
        self.trouble, self.asked = [], []
        self.page.on("console", lambda m: self.trouble.append(m.text) if m.type == "error" else None)
        self.page.on("pageerror", lambda e: self.trouble.append(str(e)))
        self.page.on("request", lambda r: self.asked.append(r.url))
        self.page.add_init_script("window.refused = []; addEventListener('securitypolicyviolation', "
                                  "e => refused.push(e.violatedDirective + ' ' + e.blockedURI))")

    def go(self, base, where):
        """Opens a page by its address, as from a bookmark, and waits until nothing is loading."""
        self.page.goto("about:blank")
        self.page.goto(base + where)
        self.page.wait_for_selector("main h1, main .panel", timeout=10_000)
        self.page.wait_for_timeout(300)
        self.page.wait_for_function("!document.querySelector('.wait')", timeout=20_000)
        self.page.wait_for_timeout(200)

    def settle(self, name):
        """Everything that must hold of whatever is shown."""
        refused = self.page.evaluate("window.refused")
        check(not refused, f"{name}: refused by the policy: {refused}")
        check(not self.trouble, f"{name}: the console says {self.trouble[:3]}")
        check(not self.page.query_selector_all(".trouble"), f"{name}: shows an error")
        beyond = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        check(beyond <= 0, f"{name}: {beyond} px too wide")
        self.trouble.clear()


def axe(visit, source, name):
    """What people with other eyes or hands would stumble over."""
    visit.page.evaluate(source)
    found = visit.page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    for rule in found:
        if rule["impact"] in ("serious", "critical"):
            where = [" ".join(map(str, node["target"])) for node in rule["nodes"]][:3]
            check(False, f"{name}: {rule['id']} ({rule['impact']}, {len(rule['nodes'])}): {where}")


def every_page(browser, base, source):
    for theme in ("light", "dark"):
        for width in (1280, 420):
            visit = Visit(browser, theme, width)
            for name, where in PAGES.items():
                visit.go(base, where)
                if name == "rerank":
                    visit.page.get_by_role("button", name="Fill in").click()
                    visit.page.wait_for_selector("text=What each λ gives")
                    visit.page.wait_for_timeout(1_200)
                visit.settle(f"{name} {theme} {width}")
                axe(visit, source, f"{name} {theme} {width}")
            visit.context.close()


def by_keyboard(browser, base):
    """From the first page to an exported audience without a pointer."""
    visit = Visit(browser, "light", 1280)
    page = visit.page
    visit.go(base, "")
    page.keyboard.press("/")
    page.keyboard.type("running sh")
    page.wait_for_selector("#found li")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Choose an audience")
    page.wait_for_timeout(500)
    check("Running shoes" in page.inner_text("h1"), "keyboard: search opens the item")
    cut = None
    for _ in range(80):
        page.keyboard.press("Tab")
        at = page.evaluate("[document.activeElement.getAttribute('role'), document.activeElement.textContent]")
        if at[0] == "slider":
            before = page.evaluate("document.activeElement.getAttribute('aria-valuenow')")
            page.keyboard.press("ArrowLeft")
            cut = (before, page.evaluate("document.activeElement.getAttribute('aria-valuenow')"))
        if at[1] == "Export CSV":
            break
    else:
        check(False, "keyboard: the export cannot be reached by Tab")
        return
    check(cut is not None and cut[0] != cut[1], f"keyboard: arrows move the cut: {cut}")
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    text = pathlib.Path(download.value.path()).read_text()
    check(text.startswith("user_id,") and text.count("\n") > 10, f"keyboard: the export is {text[:80]!r}")
    visit.settle("keyboard")
    visit.context.close()


def behind_a_prefix(browser, address):
    with under("/x/y/", address) as base:
        visit = Visit(browser, "light", 1280)
        for name, where in PAGES.items():
            visit.go(base, where)
            visit.settle(f"{name} under /x/y/")
        strays = [url for url in visit.asked if not url.startswith(base) and url != "about:blank"]
        check(not [u for u in strays if not u.startswith(("data:", "blob:"))], f"prefix: asked for {strays[:3]}")
        visit.context.close()


def with_a_key(browser, folder, data):
    """Who has no key sees a form; who has one gets a cookie and nothing that a script could read."""
    keys = folder / "keys"
    key = service.make_keys(keys, "read")["read"]
    with serving(data, "--keys", keys) as running:
        address = running.address
        visit = Visit(browser, "light", 1280)
        page = visit.page
        page.goto(f"http://{address}/")
        page.wait_for_selector("input[type=password]")
        page.fill("input[type=password]", "cadet_r_wrong")
        page.keyboard.press("Enter")
        page.wait_for_selector(".trouble")
        page.fill("input[type=password]", key)
        page.keyboard.press("Enter")
        page.wait_for_selector(".verdict")
        kept = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
        check(key not in kept and "cadet_session" not in kept, f"login: a script can read {kept}")
        page.reload()
        page.wait_for_selector(".verdict")
        page.get_by_role("button", name="test-read").click()
        page.wait_for_selector("input[type=password]")
        check(not page.evaluate("window.refused"), "login: refused by the policy")
        visit.context.close()


def sizes(address):
    def packed(path):
        request = urllib.request.Request(f"http://{address}/{path}", headers={"Accept-Encoding": "gzip"})
        with urllib.request.urlopen(request) as answer:
            body = answer.read()
            check(answer.headers["Content-Encoding"] == "gzip", f"{path} is not packed")
            return body, answer.headers

    index, headers = packed("")
    total = len(index)
    check("default-src 'none'" in headers["Content-Security-Policy"], "the page has no policy")
    for path in sorted(set(re.findall(r'(?:href|src)="(assets/[^"]+)"', gzip.decompress(index).decode()))):
        body, headers = packed(path)
        total += len(body)
        check("immutable" in headers["Cache-Control"], f"{path} is not kept")
    check(total <= BUDGET, f"{total} bytes, {BUDGET} at the most")
    print(f"  {total} bytes as sent")


def shots(browser, address, folder):
    folder.mkdir(parents=True, exist_ok=True)
    base = f"http://{address}/"

    def shot(name, wait):
        visit = Visit(browser, "light", 1280)
        visit.go(base, PAGES[name])
        visit.page.wait_for_timeout(wait)
        visit.page.set_viewport_size({"width": 1280, "height": 1000})
        path = folder / f"{name}.png"
        visit.page.screenshot(path=path)
        visit.context.close()
        check(path.stat().st_size <= 200_000, f"{path} has {path.stat().st_size} bytes")
        print(f"  {path}: {path.stat().st_size} bytes")

    shot("item", 1_000)
    with traffic(address):
        shot("overview", 75_000)


def main():
    set_up()
    from playwright.sync_api import sync_playwright

    source = (WORK / "node_modules" / "axe-core" / "axe.min.js").read_text()
    with tempfile.TemporaryDirectory() as made, sync_playwright() as driver:
        folder = pathlib.Path(made)
        data = build_world(folder)
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        with serving(data) as running:
            address = running.address
            base = f"http://{address}/"
            if "--shots" in sys.argv:
                shots(browser, address, pathlib.Path(sys.argv[sys.argv.index("--shots") + 1]))
            else:
                for name, part in [("sizes", lambda: sizes(address)),
                                   ("every page", lambda: every_page(browser, base, source)),
                                   ("by keyboard alone", lambda: by_keyboard(browser, base)),
                                   ("under /x/y/", lambda: behind_a_prefix(browser, address))]:
                    print(name)
                    part()
        if "--shots" not in sys.argv:
            print("with a key")
            with_a_key(browser, folder, data)
        browser.close()
    if failures:
        raise SystemExit(f"{len(failures)} failed")
    print("all is well")


main()
