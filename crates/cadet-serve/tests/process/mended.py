"""Good requests for Schemathesis where a JSON schema cannot say what good is.

Only requests that are meant to be good are changed, and only in what stands here; bad ones are sent as they are.
"""

import csv
import io
import json
import time

import schemathesis
from hypothesis import strategies

IDS = strategies.sampled_from(["u1007", "u1100", "sku-100", "17", "new, \"one\""]) | strategies.text(
    strategies.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=100)
ROWS = strategies.lists(strategies.fixed_dictionaries({"user_id": IDS, "item_id": IDS}), max_size=20)
SINGLE = 3.4e38


def as_csv(rows):
    out = io.StringIO()
    writer = csv.DictWriter(out, ["user_id", "item_id"], lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


# That a text is a table.
schemathesis.openapi.media_type("text/csv", ROWS.map(as_csv))
schemathesis.openapi.media_type(
    "application/x-ndjson", ROWS.map(lambda rows: "".join(json.dumps(row) + "\n" for row in rows).encode()))


def plain(value):
    """To a schema 7.0 is a whole number; here it is written 7. And all numbers are of single precision."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, float):
        value = max(-SINGLE, min(SINGLE, value))
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    return value


def one_of(body, *groups):
    """Keeps one of several ways to ask."""
    for group in groups:
        if all(body.get(name) is not None for name in group):
            kept = group
            break
    else:
        return False
    for name in {name for group in groups for name in group} - set(kept):
        body.pop(name, None)
    return True


def score(body):
    if not one_of(body, ["pairs"], ["user_id", "item_ids"], ["item_id", "user_ids"]):
        body.clear()
        body["pairs"] = []


def fewer(body):
    """More rows than a request may have come as lines or as CSV."""
    if (body.get("n") or 0) > 10_000:
        body["n"] = 10_000


def fresh(body):
    one_of(body, ["fdr"], ["quantile"], ["below"])
    fewer(body)


def audience(body):
    # A cursor is made by the service, and a weight is one of relevances.
    body.pop("cursor", None)
    candidates = body.get("candidates") or []
    if not all(isinstance(one, dict) and one.get("relevance") is not None for one in candidates) or not candidates:
        body.pop("lambda", None)
        for one in candidates:
            one.pop("relevance", None)
    fewer(body)


def exposures(body):
    for row in body["exposures"]:
        if isinstance(row.get("timestamp"), str):
            row["timestamp"] = "2026-11-18T12:00:00Z"
        elif row.get("timestamp") is not None:
            # Nothing is shown in the future.
            row["timestamp"] = min(row["timestamp"], time.time())


def rerank(body):
    # Exposures are kept one by one for 30 days.
    if body.get("window") is not None:
        body["window"] = "7d"


MENDED = {"/v1/score": score, "/v1/fresh": fresh, "/v1/audience": audience, "/v1/exposures": exposures,
          "/v1/rerank": rerank}


@schemathesis.hook
def before_call(context, case, kwargs):
    if not case.meta or not case.meta.generation.mode.is_positive:
        return
    if isinstance(case.body, dict):
        case.body = plain(case.body)
        if case.operation.path in MENDED:
            MENDED[case.operation.path](case.body)
    if case.query:
        case.query.pop("cursor", None)
        # More rows than a page has come as lines or as CSV.
        if "limit" in case.query and float(case.query["limit"]) > 1_000:
            case.query["limit"] = 1_000
