"""cadet serve from Python (pip install httpx): questions, and exposures that count once however often they are sent.

    python3 client.py [http://127.0.0.1:8377]      CADET_KEY has the key, where the service has keys
"""

import os
import sys
import time
import uuid

import httpx


class Problem(Exception):
    """An error that the service answered. `code` never changes its meaning; `errors` has each wrong place."""

    def __init__(self, answer):
        self.status, body = answer.status_code, answer.json()
        self.code, self.detail, self.errors = body["code"], body["detail"], body.get("errors", [])
        super().__init__(f"{self.code}: {self.detail}")


class Cadet:
    def __init__(self, address="http://127.0.0.1:8377", key=None):
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.http = httpx.Client(base_url=address, headers=headers, timeout=30)

    def post(self, path, body, headers=None, tries=6):
        """Asks until there is an answer. Too much at once (429), not ready (503) and no answer at all pass."""
        for attempt in range(tries):
            wait = 0.1 * 2**attempt
            try:
                answer = self.http.post(path, json=body, headers=headers)
                if answer.status_code not in (429, 503):
                    break
                wait = max(wait, float(answer.headers.get("Retry-After", 0)))
            except httpx.TransportError:
                if attempt + 1 == tries:
                    raise
            if attempt + 1 < tries:
                time.sleep(wait)
        if answer.is_error:
            raise Problem(answer)
        return answer.json()

    def score(self, user, items):
        return self.post("/v1/score", {"user_id": user, "item_ids": items})["rows"]

    def rerank(self, user, items, **options):
        """Items with the caller's relevance, best first; `write_back=True` notes the answer as shown."""
        items = [{"item_id": item, "relevance": relevance} for item, relevance in items.items()]
        body = {"lists": [{"user_id": user, "items": items}], **options}
        return self.post("/v1/rerank", body, once())["lists"][0]["items"]

    def expose(self, rows):
        """Notes what users were shown. When this returns, it is on the disk and counts."""
        return self.post("/v1/exposures", {"exposures": rows}, once())


def once():
    """A name for a request: whatever is sent twice under it counts once."""
    return {"Idempotency-Key": str(uuid.uuid4())}


def main():
    cadet = Cadet(*sys.argv[1:2], key=os.environ.get("CADET_KEY"))
    for row in cadet.score(17, ["item-0001", "item-0002", "no such item"]):
        print(row["item_id"], row["status"], row["familiarity"], row["times_seen"])
    ranked = cadet.rerank(17, {"item-0001": 0.9, "item-0002": 0.8, "item-0003": 0.7}, max_seen=3, window="7d", top=2,
                          write_back=True)
    print("shown:", [item["item_id"] for item in ranked])
    print("written:", cadet.expose([{"user_id": 17, "item_id": "item-0004"}]))
    try:
        cadet.expose([{"user_id": 17, "item_id": "item-0004", "timestamp": "yesterday"}])
    except Problem as problem:
        print(problem.code, [error["pointer"] for error in problem.errors])


if __name__ == "__main__":
    main()
