// What does a list gain and lose when familiarity has a say in it?
import { useEffect, useState } from '../vendor/hooks.js';
import { call, called, html, many, num, pct, query, settle, sign, to, useApi, useRest } from './lib.js';
import { AsTable, Choice, Empty, Field, Head, Panel, Table, Trouble, Verdict } from './parts.js';
import { Curves, Diverging, Slopes } from './draw.js';

const LAMBDAS = Array.from({ length: 11 }, (_, i) => i / 10);

/** One item a line; a relevance may follow a comma, else the order is the relevance. */
const read = text => {
  const lines = text.split('\n').map(l => l.trim()).filter(Boolean);
  return lines.map((line, i) => {
    const cut = Math.max(line.lastIndexOf(','), line.lastIndexOf('\t'), line.lastIndexOf(';'));
    const number = cut > 0 ? Number(line.slice(cut + 1)) : NaN;
    return Number.isFinite(number) ? { item_id: line.slice(0, cut).trim(), relevance: number } : { item_id: line, relevance: 1 - i / lines.length };
  });
};

/** The same question for every λ. */
function useCurve(body) {
  const key = body ? JSON.stringify({ ...body, lambda: 0 }) : '';
  const [state, set] = useState({});
  useEffect(() => {
    if (!key) return undefined;
    const stop = new AbortController();
    set(s => ({ ...s, error: undefined, loading: true }));
    Promise.all(LAMBDAS.map(lambda => call({ path: 'v1/rerank', body: { ...JSON.parse(key), lambda } }, stop.signal)))
      .then(all => set({ data: all.map((a, i) => ({ lambda: LAMBDAS[i], ...a.sums })) }))
      .catch(error => stop.signal.aborted || set({ error }));
    return () => stop.abort();
  }, [key]);
  return state;
}

const SUMS = [['relevance kept', 'relevance_kept'], ['fresh share', 'fresh_share'], ['repeats', 'repeats']];
const after = (sums, name) => (name === 'relevance_kept' ? sums[name] : sums[name].after);

export function Rerank({ at }) {
  const [user, setUser] = useState(at.get('user') || '');
  const [text, setText] = useState('');
  const [lambda, setLambda] = useState(Number(at.get('lambda') ?? 0.3));
  const [method, setMethod] = useState('fresh');
  const [cap, setCap] = useState('');
  const [top, setTop] = useState('');
  const [failed, fail] = useState();
  const [rested, asked] = [useRest(text, 400), useRest(user.trim(), 400)];
  const items = read(rested);
  const body = asked && items.length ? {
    lists: [{ user_id: asked, items }], lambda,
    method, ...(cap !== '' ? { max_seen: +cap } : {}), ...(top !== '' ? { top: +top } : {}),
  } : null;
  const request = body && { path: 'v1/rerank', body };
  const answer = useApi(request);
  const curve = useCurve(body);
  const list = answer.data?.lists[0];
  const move = v => (setLambda(v), settle('rerank', { user, lambda: v }));
  const example = async () => {
    fail(undefined);
    try {
      const [some, who] = await Promise.all([call(query('v1/items', { sort: 'users', limit: 20 })),
        user ? null : call(query('v1/users', { sort: 'last_seen', limit: 200 }))]);
      // Neither somebody who saw everything nor somebody who saw nothing.
      const middling = who?.rows.sort((a, b) => a.items - b.items)[Math.floor(who.rows.length / 2)];
      if (middling) setUser(middling.user_id);
      setText(some.rows.map((r, i) => `${r.item_id},${(1 - i / 25).toFixed(2)}`).join('\n'));
    } catch (error) {
      fail(error);
    }
  };
  return html`<${Head} title="Rerank" request=${request} sub="Paste a list as a recommender made it, and see what familiarity would change." />
    <div class="grid side">
      <${Panel} title="The list">
        <form onSubmit=${e => e.preventDefault()}>
          <${Field} label="User"><input value=${user} onInput=${e => setUser(e.target.value)} placeholder="the id of a user" /><//>
          <${Field} label="Items, best first: one a line, a relevance may follow a comma">
            <textarea rows="9" value=${text} onInput=${e => setText(e.target.value)} placeholder=${'318,0.98\n1,0.91\n…'}></textarea><//>
          <p><button type="button" onClick=${example}>Fill in the 20 most shown</button></p>
          ${failed && html`<${Trouble} error=${failed} />`}
          <${Field} label=${`λ = ${num(lambda, 2)}`} hint="0 keeps the order, 1 asks for freshness alone">
            <input type="range" min="0" max="1" step="0.05" value=${lambda} onInput=${e => move(+e.target.value)} /><//>
          <${Choice} name="method" label="Method" value=${method} onPick=${setMethod} options=${METHODS} />
          <div class="bar"><${Field} label="seen at most"><input type="number" min="1" value=${cap} onInput=${e => setCap(e.target.value)} placeholder="any" /><//>
            <${Field} label="keep the top"><input type="number" min="1" value=${top} onInput=${e => setTop(e.target.value)} placeholder="all" /><//></div>
        </form>
      <//>
      <div>
        ${!body ? html`<${Panel} title="What changes"><${Empty}>Name a user and paste some items, or fill in the most shown ones.<//><//>`
          : html`<${Panel} title="What changes" of=${answer}>${() => html`
            <${Summary} list=${list} sums=${answer.data.sums} /><${Slopes} items=${list.items.map(i => ({ ...i, label: called(i) }))} />`}<//>
          <${Panel} title="What each λ gives" note="a click picks one" of=${curve}>${points => html`
            <${Curves} at=${lambda} onPick=${move} xLabel="λ" series=${SUMS.map(([name, key]) => ({ name, points: points.map(p => [p.lambda, after(p, key)]) }))} />
            <${AsTable} name="What each λ gives" rows=${points} columns=${[{ name: 'λ', number: true, of: p => num(p.lambda, 1) },
              ...SUMS.map(([name, key]) => ({ name, number: true, of: p => pct(after(p, key), 1) }))]} />`}<//>`}
      </div>
    </div>
    ${list && html`<${Panel} title="The new list" wide><${Table} name="The new list" rows=${list.items.map(i => ({ ...i, key: i.item_id }))} columns=${[
      { name: 'rank', number: true, of: r => r.rank ?? '–' }, { name: 'was', number: true, of: r => r.was },
      { name: 'item', class: 'name', of: r => html`<a href=${to('item', { id: r.item_id })}>${called(r)}</a>` },
      { name: 'relevance', number: true, of: r => num(r.relevance, 2) },
      { name: 'familiarity', class: 'grow', of: r => html`<${Diverging} value=${r.familiarity} most=${3} />` },
      { name: 'score', number: true, of: r => sign(r.score, 3) }, { name: 'seen', number: true, of: r => num(r.times_seen) },
      { name: '', of: r => [r.status === 'ok' ? '' : r.status, r.placed_by === 'score' ? '' : r.placed_by].filter(Boolean).join(', ').replaceAll('_', ' ') }]} /><//>`}`;
}

const METHODS = [['fresh', 'fresh to the user'], ['mmr', 'unlike each other']];

function Summary({ list, sums }) {
  const kept = sums.relevance_kept ?? 1;
  const colour = kept >= 0.95 ? 'green' : kept >= 0.8 ? 'amber' : 'red';
  const moved = list.items.filter(i => i.rank && i.rank !== i.was).length;
  return html`<${Verdict} colour=${colour} word=${{ green: 'Cheap', amber: 'At a price', red: 'Dear' }[colour]}
    lead=${html`The first ${num(sums.places)} keep <b>${pct(kept, 1)}</b> of their relevance; ${many(moved, 'item')} of the list moved.`}
    reasons=${[`Fresh among them: ${pct(sums.fresh_share.before)} → ${pct(sums.fresh_share.after)}.`,
      `Seen before: ${pct(sums.repeats.before)} → ${pct(sums.repeats.after)}.`]} />`;
}
