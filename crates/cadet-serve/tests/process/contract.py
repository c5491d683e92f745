"""Does the service do what its description says? Schemathesis asks it everything, as nobody and as each role.

    python3 crates/cadet-serve/tests/process/contract.py            the test
    python3 crates/cadet-serve/tests/process/contract.py --soak     ten times as much of it
    python3 crates/cadet-serve/tests/process/contract.py --only admin --op /v1/score    a part of it

Answers 5xx, undocumented codes, kinds and bodies, good requests that are refused and bad ones that are not: each is
a failure, and one is enough.
"""

import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import tempfile
import time

import service

SEED = 20_261_119
ROLES = ["nobody", "read", "ingest", "admin"]
EXAMPLES, SOAK = {"nobody": 5, "read": 15, "ingest": 15, "admin": 25}, 10

# Half of all ids and names are ones that the service knows: else most answers would be 404.
CONFIG = """
[cache]
enabled = false
[checks.negative_data_rejection]
# A body of more than 8 MiB is refused before it is read.
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 429]
[[operations]]
# The names of features are the model's, and most models have none.
include-path = "/v1/users"
include-method = "PUT"
checks.positive_data_acceptance.expected-statuses = ["2xx", 401, 403, 422, 429]
[[operations]]
# With `partial` rows that are wrong are told in an answer 207.
include-path = "/v1/exposures"
checks.negative_data_rejection.expected-statuses = [207, 400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 429]
[dictionaries.known]
values = ["u1007", "u1100", "u1234", "sku-100", "sku-117", "sku-149"]
[dictionaries.models]
values = [{models}]
[generation.dictionaries]
string = {{ dictionary = "known", probability = 0.5 }}
[parameters]
"path.version" = {{ dictionary = "models", probability = 0.5 }}
"""


def run(name, key, address, config, examples, only):
    """All phases and all checks as one of the roles: whether all is well."""
    st = service.TARGET / "contract" / "env" / "bin" / "st"
    command = [st, "--config-file", config, "run", f"http://{address}/openapi.json", "--checks", "all",
               "--max-examples", str(examples), "--seed", str(SEED), "--generation-database", "none",
               "--continue-on-failure", "--warnings", "off", "--no-color", "--request-timeout", "20"]
    if key:
        command += ["-H", f"Authorization: Bearer {key}"]
    if only:
        command += ["--include-path", only]
    begun = time.monotonic()
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=config.parent,
                          env={**os.environ, "SCHEMATHESIS_HOOKS": "mended",
                               "PYTHONPATH": str(service.HERE)})
    took = time.monotonic() - begun
    print(f"  {name}: {'all is well' if not done.returncode else 'FAILED'}, {took:.0f} s")
    if done.returncode:
        print(done.stdout, done.stderr)
    return not done.returncode


def main():
    asked = argparse.ArgumentParser()
    asked.add_argument("--soak", action="store_true")
    asked.add_argument("--only")
    asked.add_argument("--op")
    asked = asked.parse_args()
    service.among("contract", "schemathesis==4.32.5", "openapi-spec-validator==0.9.0")
    from openapi_spec_validator import validate
    from openapi_spec_validator.readers import read_from_filename

    validate(read_from_filename(str(service.ROOT / "crates/cadet-serve/openapi.json"))[0])
    print("openapi.json is valid OpenAPI 3.1")
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        data = service.build_world(folder)
        models = ", ".join(f'"{model.name}"' for model in (data / "models").iterdir() if model.is_dir())
        config = folder / "schemathesis.toml"
        config.write_text(CONFIG.format(models=models))
        keys = folder / "keys.toml"
        secrets = service.make_keys(keys, *ROLES[1:])
        with service.serving(data, "--keys", keys) as running:
            def ask(name):
                examples = EXAMPLES[name] * (SOAK if asked.soak else 1)
                return run(name, secrets.get(name), running.address, config, examples, asked.op)

            # Two at once: what they ask is made in Python, which is most of the work.
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                good = all(pool.map(ask, [asked.only] if asked.only else ROLES[::-1]))
    if not good:
        raise SystemExit(1)


main()
