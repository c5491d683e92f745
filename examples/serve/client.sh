#!/bin/sh
# cadet serve from a shell: questions, and exposures that count once however often they are sent.
#
#     sh client.sh [http://127.0.0.1:8377]        CADET_KEY has the key, where the service has keys
set -eu
address=${1:-http://127.0.0.1:8377}
answer=$(mktemp)
trap 'rm -f "$answer"' EXIT

# Asks until there is an answer: curl tries again at 429, at 503, and where none came. Fails with what is wrong.
post() { # path, body, idempotency key
  status=$(curl -sS --max-time 30 --retry 5 --retry-all-errors -o "$answer" -w '%{http_code}' "$address$1" \
    -H 'Content-Type: application/json' ${3:+-H "Idempotency-Key: $3"} \
    ${CADET_KEY:+-H "Authorization: Bearer $CADET_KEY"} -d "$2")
  cat "$answer" && echo
  [ "$status" -lt 400 ]
}

# A name for a request: whatever is sent twice under it counts once.
once() { od -An -N16 -tx1 /dev/urandom | tr -d ' \n'; }

post /v1/score '{"user_id": 17, "item_ids": ["item-0001", "item-0002", "no such item"]}'
post /v1/rerank '{"lists": [{"user_id": 17, "items": [
    {"item_id": "item-0001", "relevance": 0.9}, {"item_id": "item-0002", "relevance": 0.8},
    {"item_id": "item-0003", "relevance": 0.7}]}],
  "max_seen": 3, "window": "7d", "top": 2, "write_back": true}' "$(once)"
post /v1/exposures '{"exposures": [{"user_id": 17, "item_id": "item-0004"}]}' "$(once)"
# What is wrong is named by code, and each place by a pointer.
post /v1/exposures '{"exposures": [{"user_id": 17, "item_id": "item-0004", "timestamp": "yesterday"}]}' "$(once)" ||
  echo "refused with $status: nothing was written"
