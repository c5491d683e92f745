// cadet serve from JavaScript (node 18 or newer, or a browser): questions, and exposures that count once however
// often they are sent.
//
//     node client.mjs [http://127.0.0.1:8377]        CADET_KEY has the key, where the service has keys

/** An error that the service answered. `code` never changes its meaning; `errors` has each wrong place. */
class Problem extends Error {
  constructor(status, { code, detail, errors = [] }) {
    super(`${code}: ${detail}`);
    Object.assign(this, { status, code, detail, errors });
  }
}

class Cadet {
  constructor(address = 'http://127.0.0.1:8377', key) {
    this.address = address;
    this.headers = { 'Content-Type': 'application/json', ...(key && { Authorization: `Bearer ${key}` }) };
  }

  /** Asks until there is an answer. Too much at once (429), not ready (503) and no answer at all pass. */
  async post(path, body, headers = {}, tries = 6) {
    for (let attempt = 1; ; attempt++) {
      let answer, failure;
      try {
        answer = await fetch(this.address + path, {
          method: 'POST',
          headers: { ...this.headers, ...headers },
          body: JSON.stringify(body),
          signal: AbortSignal.timeout(30_000),
        });
        if (answer.ok) return await answer.json();
        failure = new Problem(answer.status, await answer.json());
      } catch (error) {
        failure = error;
      }
      const passes = !answer?.status || [429, 503].includes(answer.status);
      if (attempt === tries || !passes) throw failure;
      const wait = Math.max(50 * 2 ** attempt, 1000 * (answer?.headers.get('Retry-After') ?? 0));
      await new Promise(done => setTimeout(done, wait));
    }
  }

  async score(user_id, item_ids) {
    return (await this.post('/v1/score', { user_id, item_ids })).rows;
  }

  /** Items with the caller's relevance, best first; `write_back: true` notes the answer as shown. */
  async rerank(user_id, items, options = {}) {
    const list = Object.entries(items).map(([item_id, relevance]) => ({ item_id, relevance }));
    return (await this.post('/v1/rerank', { lists: [{ user_id, items: list }], ...options }, once())).lists[0].items;
  }

  /** Notes what users were shown. When this returns, it is on the disk and counts. */
  expose(exposures) {
    return this.post('/v1/exposures', { exposures }, once());
  }
}

/** A name for a request: whatever is sent twice under it counts once. */
const once = () => ({ 'Idempotency-Key': crypto.randomUUID() });

const cadet = new Cadet(process.argv[2], process.env.CADET_KEY);
for (const row of await cadet.score(17, ['item-0001', 'item-0002', 'no such item'])) {
  console.log(row.item_id, row.status, row.familiarity, row.times_seen);
}
const items = { 'item-0001': 0.9, 'item-0002': 0.8, 'item-0003': 0.7 };
const ranked = await cadet.rerank(17, items, { max_seen: 3, window: '7d', top: 2, write_back: true });
console.log('shown:', ranked.map(item => item.item_id));
console.log('written:', await cadet.expose([{ user_id: 17, item_id: 'item-0004' }]));
try {
  await cadet.expose([{ user_id: 17, item_id: 'item-0004', timestamp: 'yesterday' }]);
} catch (problem) {
  console.log(problem.code, problem.errors.map(error => error.pointer));
}
