"""Clients, alerts, board and unit, against a running service. `ops/test.sh` installs what is needed and calls this."""

import contextlib
import http.client
import http.server
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
CADET = os.environ.get("CADET", str(ROOT / "target" / "debug" / "cadet"))
failures = []


def check(good, text):
    """Notes what is wrong and goes on: one run shows all."""
    if not good:
        failures.append(text)
        print("  FAILED", text)


def ask(address, method, path, body=None, key=None):
    """Status and JSON of an answer."""
    service = http.client.HTTPConnection(address, timeout=30)
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    service.request(method, path, json.dumps(body) if body is not None else None, headers)
    answer = service.getresponse()
    text = answer.read().decode()
    return answer.status, json.loads(text) if "json" in answer.headers["Content-Type"] else text


def wait_for(what, good, seconds=60):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if good():
                return
        time.sleep(0.2)
    raise SystemExit(f"{what}: not within {seconds} s")


@contextlib.contextmanager
def running(command, **options):
    """A process that is ended with the block."""
    process = subprocess.Popen(command, **options)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def serving(folder):
    """A service of the demo's shop with keys: where it listens, and its keys by role."""
    data, keys, text = folder / "data", {}, ""
    subprocess.run([CADET, "demo", "--into", data], check=True, capture_output=True)
    for role in ("read", "ingest", "admin", "read,ingest"):
        made = subprocess.run([CADET, "key", "new", "--role", role, "--name", role.replace(",", " and "), "--json"],
                              check=True, capture_output=True, text=True)
        made = json.loads(made.stdout)
        keys[role], text = made["key"], text + made["table"] + "\n"
    (folder / "keys.toml").write_text(text)
    address = f"127.0.0.1:{free_port()}"
    flags = ["--listen", address, "--keys", folder / "keys.toml", "--log-format", "json"]
    with open(folder / "log", "w") as log, running([CADET, "serve", data, *flags], stderr=log) as service:
        wait_for("cadet serve", lambda: ask(address, "GET", "/readyz")[0] == 200)
        yield address, keys
        service.terminate()
        check(service.wait(15) == 0, f"the service ended with {service.returncode}")


@contextlib.contextmanager
def trouble(address):
    """What happens between a client and a service: every first try at a path gets no answer though the service had
    the request, and every second one 503."""
    tries = {}

    class Proxy(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            number = tries[self.path] = tries.get(self.path, 0) + 1
            if number == 2:
                self.answer(503, b'{"code":"overloaded","detail":"try again","title":"","type":"","status":503}',
                            [("Content-Type", "application/problem+json"), ("Retry-After", "1")])
                return
            service = http.client.HTTPConnection(address, timeout=30)
            kept = ("content-type", "authorization", "idempotency-key")
            service.request("POST", self.path, body, {k: v for k, v in self.headers.items() if k.lower() in kept})
            answer = service.getresponse()
            data = answer.read()
            if number == 1:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.answer(answer.status, data, [(k, v) for k, v in answer.getheaders() if k.lower() == "content-type"])

        def answer(self, status, data, headers):
            self.send_response(status)
            for name, value in [*headers, ("Content-Length", str(len(data)))]:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{proxy.server_port}", tries
    finally:
        proxy.shutdown()


def clients(address, keys):
    """Each client as it stands, through a bad connection: what it sends again counts once."""
    folder = ROOT / "examples" / "serve"
    rows = {"user_id": 17, "item_ids": ["item-0001", "item-0002", "item-0003", "item-0004"]}

    def seen():
        return [row["times_seen"] for row in ask(address, "POST", "/v1/score", rows, keys["read"])[1]["rows"]]

    for command in (["sh", folder / "client.sh"], [sys.executable, folder / "client.py"],
                    ["node", folder / "client.mjs"]):
        name = pathlib.Path(command[1]).name
        before = seen()
        with trouble(address) as (proxy, tries):
            ran = subprocess.run([*command, proxy], capture_output=True, text=True, timeout=120, check=False,
                                 env={**os.environ, "CADET_KEY": keys["read,ingest"]})
        said = ran.stdout + ran.stderr
        check(ran.returncode == 0, f"{name} ended with {ran.returncode}: {said}")
        check(all(tries.get(path, 0) > 2 for path in ("/v1/score", "/v1/rerank", "/v1/exposures")),
              f"{name} did not try again: {tries}")
        added = [b - a for a, b in zip(before, seen())]
        check(sum(added[:3]) == 2 and max(added) == 1 and added[3] == 1, f"{name} counts {added}, sent once each")
        # Where a cap matters, too: by the third client user 17 has seen some items three times.
        for part in ("unknown_item", "invalid", "/exposures/0/timestamp"):
            check(part in said, f"{name} does not show {part}: {said}")
        alone = subprocess.run([*command, f"http://{address}"], capture_output=True, text=True, timeout=120,
                               check=False, env={**os.environ, "CADET_KEY": "none"})
        check(alone.returncode != 0 and "unauthorized" in alone.stdout + alone.stderr,
              f"{name} without a key: {alone.stdout}{alone.stderr}")


def alerts():
    """The rules are well formed, and each fires when it should."""
    for arguments in (["check", "rules", "cadet.rules.yml"], ["test", "rules", "cadet.rules.test.yml"]):
        ran = subprocess.run(["promtool", *arguments], cwd=HERE, capture_output=True, text=True, check=False)
        check(ran.returncode == 0, f"promtool {' '.join(arguments)}: {ran.stdout}{ran.stderr}")
    rules = (HERE / "cadet.rules.yml").read_text()
    tried = (HERE / "cadet.rules.test.yml").read_text()
    for name in re.findall(r"alert: (\w+)", rules):
        check(re.search(rf"alertname: {name}\n\s+eval_time: \w+\n\s+exp_alerts:", tried), f"{name} is never tried out")


def board(address, keys, folder):
    """Prometheus scrapes the service, and every expression of the board and of the alerts finds something there."""
    (folder / "key").write_text(keys["read"])
    (folder / "prometheus.yml").write_text(f"""
global: {{ scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }}
rule_files: [{json.dumps(str(HERE / "cadet.rules.yml"))}]
scrape_configs:
  - job_name: cadet
    authorization: {{ credentials_file: {json.dumps(str(folder / "key"))} }}
    static_configs: [{{ targets: ["{address}"] }}]
""")
    listen = f"127.0.0.1:{free_port()}"
    command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb",
               f"--web.listen-address={listen}"]

    def query(expression):
        return ask(listen, "GET", "/api/v1/query?" + urllib.parse.urlencode({"query": expression}))

    stop = threading.Event()

    def traffic():
        while not stop.is_set():
            ask(address, "POST", "/v1/score", {"user_id": 17, "item_ids": ["item-0001", "item-0002"]}, keys["read"])
            shown = {"exposures": [{"user_id": 17, "item_id": "item-0001"}]}
            ask(address, "POST", "/v1/exposures", shown, keys["ingest"])
            time.sleep(0.1)

    worker = threading.Thread(target=traffic, daemon=True)
    with running(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        worker.start()
        wait_for("a scrape", lambda: query("count_over_time(cadet_build_info[1m]) > 8")[1]["data"]["result"])
        stop.set()
        worker.join()
        metrics = ask(address, "GET", "/metrics", key=keys["read"])[1]
        panels = json.loads((HERE / "grafana.json").read_text())["panels"]
        for panel in panels:
            for target in panel.get("targets", []):
                written = target["expr"]
                asked = written.replace("$__rate_interval", "30s").replace("$instance", ".*")
                status, answer = query(asked)
                check(status == 200 and answer["data"]["result"], f"board, {panel['title']}: nothing for {written}")
        places = [panel["gridPos"] for panel in panels]
        cells = [(x, y) for p in places for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])]
        check(len(cells) == len(set(cells)), "board: panels lie on each other")
        # Counters that count nothing yet are not there; the service's own tests tell them all.
        rare = {"cadet_http_shed_total", "cadet_auth_failures_total", "cadet_model_swaps_total"}
        named = (HERE / "grafana.json").read_text() + (HERE / "cadet.rules.yml").read_text()
        for name in sorted(set(re.findall(r"\b(?:cadet|process)_\w+_\w+\b", named)) - rare):
            check(re.search(rf"^{name}[ {{]", metrics, re.M), f"/metrics has no {name}")
        rules = ask(listen, "GET", "/api/v1/rules")[1]["data"]["groups"][0]["rules"]
        check(len(rules) == 8 and all(rule["health"] == "ok" for rule in rules), f"rules: {rules}")
        firing = [rule["name"] for rule in rules if rule["state"] == "firing"]
        check(not firing, f"alerts of a service that is well: {firing}")
    text = subprocess.run(["promtool", "check", "metrics"], input=metrics, capture_output=True, text=True, check=False)
    check(text.returncode == 0, f"promtool check metrics: {text.stdout}{text.stderr}")


def units(folder):
    """systemd takes the units, and finds little that they could do without."""
    if not shutil.which("systemd-analyze"):
        print("  no systemd-analyze here: the units are not looked at")
        return
    copies = folder / "units"
    copies.mkdir()
    for path in [*HERE.glob("*.service"), *HERE.glob("*.timer")]:
        (copies / path.name).write_text(path.read_text().replace("/usr/local/bin/cadet", CADET))
    ran = subprocess.run(["systemd-analyze", "verify", *copies.iterdir()], capture_output=True, text=True, check=False)
    check(ran.returncode == 0 and not ran.stderr.strip(), f"systemd-analyze verify: {ran.stderr}")
    judge = ["systemd-analyze", "security", "--offline=yes", "--threshold=20", str(copies / "cadet.service")]
    ran = subprocess.run(judge, capture_output=True, text=True, check=False)
    check(ran.returncode == 0, f"systemd-analyze security: {ran.stdout[-300:]}{ran.stderr}")
    for path in HERE.glob("*.service"):
        for line in re.findall(r"^ExecStart=\S+ (.*)", path.read_text(), re.M):
            # What is typed there is understood: with a folder that is not there, it is the folder that is missed.
            words = line.replace("/var/lib/cadet", str(folder / f"none-{path.stem}")).split()
            words = [word for word in words if word not in ("--config", "/etc/cadet/cadet.toml")]
            ran = subprocess.run([CADET, *words], capture_output=True, text=True, check=False, timeout=60)
            check("none-" in ran.stderr and ran.returncode == 2, f"{path.name}: {line}: {ran.stderr}")


def main():
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        print("alerts")
        alerts()
        print("units")
        units(folder)
        with serving(folder) as (address, keys):
            print("clients")
            clients(address, keys)
            print("board")
            board(address, keys, folder)
    if failures:
        raise SystemExit(f"{len(failures)} failed")
    print("all is well")


main()
