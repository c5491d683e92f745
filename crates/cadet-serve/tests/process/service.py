"""A `cadet serve` of its own process, for tests from without: a small world, keys, and the process itself.

Wanted: a built `cadet` (CADET, or debug/cadet in the target folder).
"""

import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request

import world

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[3]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
CADET = os.environ.get("CADET", str(TARGET / "debug" / "cadet"))
USER, ITEM = "u1007", "sku-100"


def among(name, *packages):
    """Starts the script again in an environment of its own, which has these packages at these versions."""
    folder = TARGET / name / "env"
    python, has = folder / "bin" / "python", folder / "packages"
    wanted = "\n".join(packages)
    if not has.exists() or has.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
        has.write_text(wanted)
    if pathlib.Path(sys.prefix) != folder:
        os.execv(python, [str(python), *sys.argv])


def build_world(folder):
    """Two models in a data folder; the second answers."""
    log, titles = folder / "log.csv", folder / "titles.csv"
    world.write(log, titles)
    models = folder / "data" / "models"
    models.mkdir(parents=True)
    day_before, today = (time.strftime("%Y%m%dT%H%M%S", time.gmtime(time.time() - 3600 * ago)) for ago in (33, 9))
    for name, epochs, seed in [(f"{day_before}-before", 2, 7), (f"{today}-now", 8, 1)]:
        train = [CADET, "train", log, "--items", titles, "--out", models / name, "--epochs", str(epochs), "--seed",
                 str(seed), "--report", folder / "report.html"]
        subprocess.run(train, check=True, capture_output=True)
        shutil.copy(folder / "report.html", models / name / "report.html")
    (models / "CURRENT").write_text(f"{today}-now\n")
    return folder / "data"


def make_keys(path, *roles):
    """Writes a keys file with a key for each role: what their holders send, by role."""
    secrets, tables = {}, []
    for role in roles:
        made = [CADET, "--json", "key", "new", "--role", role, "--name", f"test-{role}"]
        made = json.loads(subprocess.run(made, capture_output=True, text=True, check=True).stdout)
        secrets[role] = made["key"]
        tables.append(made["table"])
    path.write_text("\n".join(tables))
    return secrets


class Service:
    """A running service: `address` is host and port."""

    def __init__(self, process, address):
        self.process, self.address = process, address

    def memory(self, line="VmRSS"):
        """Mebibytes in memory now, or at the most so far (`VmHWM`)."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"{line}:\s+(\d+) kB", status)[1]) / 1024

    def send(self, method, path, body=None, headers=(), timeout=30):
        """Sends a request on a connection of its own: status, headers and body of the answer."""
        connection = http.client.HTTPConnection(self.address, timeout=timeout)
        try:
            headers = dict(headers)
            if isinstance(body, (dict, list)):
                body, headers = json.dumps(body), {"Content-Type": "application/json", **headers}
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()


@contextlib.contextmanager
def serving(data, *flags):
    """A running service. It is ended by its own process."""
    process = subprocess.Popen([CADET, "serve", data, "--listen", "127.0.0.1:0", *flags], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    try:
        address = None
        for line in process.stdout:
            found = re.search(r"http://([0-9.]+:\d+)", line)
            if found:
                address = found[1]
                break
        if not address:
            raise SystemExit("cadet serve did not say where it listens")
        threading.Thread(target=lambda: [None for _ in process.stdout], daemon=True).start()
        for _ in range(600):
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(f"http://{address}/readyz") as ready:
                    if ready.status == 200:
                        break
            time.sleep(0.1)
        else:
            raise SystemExit("cadet serve was not ready within a minute")
        yield Service(process, address)
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
