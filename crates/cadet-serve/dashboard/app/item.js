// Who knows an item, how worn out is it, and who should be shown it next?
import { useState } from '../vendor/hooks.js';
import { ago, called, day, fetchRaw, html, many, num, pct, prob, query, save, settle, to, useApi, useRest } from './lib.js';
import { AsTable, Choice, Copy, Curl, Empty, Field, Head, Panel, Table, Trouble, Verdict } from './parts.js';
import { below, Cut, Days, Diverging } from './draw.js';

const BASIS = { own: 'own', similar: 'of similar items', all: 'of all items' };

/** In a word: is there anybody left? */
function Saturation({ item }) {
  const [left, repeats] = [item.fresh_share, item.saturation ?? 0];
  const colour = left == null ? 'none' : left < 0.2 ? 'red' : left < 0.4 || repeats > 0.5 ? 'amber' : 'green';
  const word = { green: 'Room to grow', amber: 'Wearing', red: 'Worn out', none: 'Not scored' }[colour];
  return html`<${Verdict} colour=${colour} word=${word}
    lead=${left == null ? html`${many(item.users, 'user')} saw it; it has no embedding, so nobody's familiarity is known.`
      : html`It is fresh to <b>${pct(left)}</b> of all users; ${num(item.users)} saw it, last ${ago(item.last_seen)}.`}
    reasons=${[`${pct(repeats)} of its ${many(item.exposures, 'exposure')} were repeats.`,
      ...(item.standing && item.standing !== 'trained' ? [`Its standing is “${item.standing}”: read the figures with care.`] : [])]} />`;
}

const candidates = text => text.split('\n').map(line => line.trim()).filter(Boolean).map(line => {
  const [user_id, relevance] = line.split(/[,;\t]/).map(part => part.trim());
  return relevance ? { user_id, relevance: Number(relevance) } : { user_id };
});

const columns = most => [
  { name: 'user', class: 'name', of: r => html`<a href=${to('user', { id: r.user_id })}>${r.user_id}</a>` },
  { name: 'familiarity', class: 'grow', of: r => html`<${Diverging} value=${r.familiarity} most=${most} />` },
  { name: 'quantile', number: true, title: 'Share of all users who are less familiar', of: r => prob(r.quantile) },
  { name: 'p', number: true, title: 'Share of its audience that is as unfamiliar or more', of: r => prob(r.p_value) },
  { name: 'seen', number: true, of: r => num(r.times_seen) },
  { name: 'last seen', number: true, of: r => (r.last_seen ? html`<span title=${day(r.last_seen)}>${ago(r.last_seen)}</span>` : 'never') },
];

function Audience({ item, cut }) {
  const [mode, setMode] = useState('fresh');
  const [unseen, setUnseen] = useState(true);
  const [least, setLeast] = useState(5);
  const [n, setN] = useState(100);
  const [rate, setRate] = useState(10);
  const [among, setAmong] = useState('');
  const [lambda, setLambda] = useState(0.3);
  const [long, setLong] = useState(false);
  const [failed, fail] = useState();
  const chosen = candidates(useRest(among, 500));
  const body = { item_id: item.item_id, mode, n: useRest(n), exclude_seen: unseen, min_exposures: useRest(least),
    ...(chosen.length ? { candidates: chosen } : {}), ...(chosen.some(c => c.relevance !== undefined) ? { lambda } : {}) };
  const request = { path: 'v1/audience', body };
  // A page shows a few; the export has all.
  const rows = useApi({ ...request, body: { ...body, n: Math.min(body.n, 200) } });
  const test = useApi({ path: 'v1/fresh', body: { item_id: item.item_id, fdr: useRest(rate) / 100, exclude_seen: unseen, n: 1 } });
  const most = Math.max(...(rows.data?.rows || []).map(r => Math.abs(r.familiarity || 0)), 1);
  const send = async (kind, accept) => {
    fail(undefined);
    try {
      const answer = await fetchRaw({ ...request, accept });
      save(`audience-${item.item_id.replace(/[^\w.-]+/g, '_').slice(0, 60)}.${kind}`, await answer.blob());
    } catch (error) {
      fail(error);
    }
  };
  const count = (set, most, least = 0) => e => set(Math.max(least, Math.min(most, Math.round(+e.target.value) || least)));
  return html`<${Panel} title="Choose an audience" wide>
    <form class="bar" onSubmit=${e => e.preventDefault()}>
      <${Choice} name="mode" label="Which end" value=${mode} options=${[['fresh', 'fresh'], ['common', 'common']]} onPick=${setMode} />
      <${Field} label="users"><input type="number" min="1" max="1000000" value=${n} onInput=${count(setN, 1e6, 1)} /><//>
      <label class="tick"><input type="checkbox" checked=${unseen} onChange=${e => setUnseen(e.target.checked)} /> never saw it</label>
      <${Field} label="≥ exposures"><input type="number" min="0" max="10000" value=${least} onInput=${count(setLeast, 1e4)} /><//>
      <${Field} label="false alarms ≤ %"><input type="number" min="1" max="50" value=${rate} onInput=${count(setRate, 50, 1)} /><//>
      <span class="tools"><button type="button" class="act" onClick=${() => send('csv', 'text/csv')}>Export CSV</button>
        <button type="button" onClick=${() => send('ndjson', 'application/x-ndjson')}>Export NDJSON</button><${Curl} of=${request} /></span>
    </form>
    <details class="figures"><summary>Only among users I bring</summary>
      <${Field} label="One user a line; a relevance may follow a comma">
        <textarea rows="4" value=${among} onInput=${e => setAmong(e.target.value)} placeholder=${'4480,0.9\n17,0.4'}></textarea><//>
      ${chosen.some(c => c.relevance !== undefined) && html`<${Field} label=${`λ = ${lambda}: 0 is relevance alone, 1 freshness alone`}>
        <input type="range" min="0" max="1" step="0.05" value=${lambda} onInput=${e => setLambda(+e.target.value)} /><//>`}
    </details>
    ${failed && html`<${Trouble} error=${failed} />`}
    ${test.data && html`<p class="say" aria-live="polite">${test.data.flagged_count
      ? html`<b>${many(test.data.flagged_count, 'user')}</b> would find it fresh, with at most ${rate} % of them wrong; ${many(test.data.tested, 'user was', 'users were')} tested.`
      : html`Nobody can be called fresh with at most ${rate} % false alarms: ${test.data.why_none?.detail || ''}`}</p>`}
    ${test.error && html`<${Trouble} error=${test.error} />`}
    <${Panel} of=${rows}>${d => html`
      ${d.hub_share != null && html`<p class="note">${d.hub_share > 0.5 ? '▲ ' : ''}Hub share ${pct(d.hub_share)}: of the places on all items' lists, held by the 1 % of users who are listed most${d.hub_share > 0.5 ? '. The same few would get everything.' : '.'}</p>`}
      <${Table} name="Audience" columns=${columns(most)} rows=${d.rows.slice(0, long ? 200 : 20).map(r => ({ ...r, key: r.user_id }))}
        mark=${r => r.familiarity <= cut} empty="Nobody fits: ask for fewer exposures, or allow who saw it." />
      ${d.rows.length > 20 && html`<p class="fine">The first ${long ? num(Math.min(200, d.rows.length)) : 20} of ${many(Math.min(body.n, d.among), 'user')}; the export has all.
        ${' '}<button type="button" class="link" onClick=${() => setLong(!long)}>${long ? 'fewer' : 'more'}</button></p>`}`}<//>
  <//>`;
}

function Known({ item, all, cut, setCut }) {
  const bins = item.histogram?.bins;
  if (!bins) return html`<${Empty}>Too little is known of this item for a picture: it is “${item.standing}”.<//>`;
  const last = Math.max(...bins.map((b, i) => (b.population || b.exposed ? i : 0)));
  const first = bins.findIndex(b => b.population || b.exposed);
  const shown = bins.slice(Math.max(0, first - 1), last + 2);
  const [edges, population, audience] = [[...shown.map(b => b.from), shown.at(-1).to], shown.map(b => b.population), shown.map(b => b.exposed)];
  const share = below(edges, population, cut);
  return html`<${Cut} edges=${edges} population=${population} audience=${audience} cut=${Math.max(edges[0], Math.min(edges.at(-1), cut))} onCut=${setCut} />
    <p class="say">${all ? html`<b>${many(Math.round(share * all), 'user')}</b> (${pct(share)})` : html`<b>${pct(share)}</b> of all users`} are
      below ${num(cut, 2)}, and ${pct(below(edges, audience, cut))} of its audience. Familiarity 0.7 means: twice as common in its audience as among all.</p>
    <${AsTable} name="Familiarity of all users and of the audience" rows=${shown} columns=${[
      { name: 'familiarity', number: true, of: r => `${num(r.from, 2)} to ${num(r.to, 2)}` },
      { name: 'all users', number: true, of: r => num(r.population) }, { name: 'its audience', number: true, of: r => num(r.exposed) }]} />`;
}

export function Item({ at }) {
  const id = at.get('id') || '';
  const request = query('v1/item', { id });
  const item = useApi(request);
  const all = useApi('v1/users?limit=1');
  const similar = useApi(query('v1/similar', { item_id: id, n: 8 }));
  const [cut, setCut] = useState(Number(at.get('cut') ?? -0.7));
  const move = v => (setCut(v), settle('item', { id, cut: v }));
  const d = item.data;
  return html`<${Head} from="items" title=${d?.title || id} request=${request}
      sub=${d && html`id ${d.item_id} · ${many(d.users, 'user')} · ${many(d.exposures, 'exposure')} · p-values: ${BASIS[d.p_values.basis] || d.p_values.basis}`}>
      <${Copy} text=${id} label="copy id" /><//>
    <${Panel} of=${item}>${i => html`<${Saturation} item=${i} />`}<//>
    ${d && html`<div class="grid two">
      <${Panel} title="Who knows it?"><${Known} item=${d} all=${all.data?.total} cut=${cut} setCut=${move} /><//>
      <${Panel} title="How worn out?">
        ${!d.saturation_by_day.length ? html`<${Empty}>The log has no times for this item.<//>` : html`<${Days} days=${d.saturation_by_day} />
        <p class="fine">The last show of each user, on its day: new to the user, or seen before.</p>
        <${AsTable} name="By day" rows=${[...d.saturation_by_day].reverse()} columns=${[{ name: 'day', of: r => r.day },
          { name: 'new', number: true, of: r => num(r.new) }, { name: 'repeats', number: true, of: r => num(r.repeat) }]} />`}
      <//></div>
      <${Audience} item=${d} cut=${cut} />
      <${Panel} title="Same audience" of=${similar} request=${similar.request}>${s => html`<${Table} name="Items with the same audience" rows=${s.rows}
        empty="No other item has an audience like it." columns=${[
        { name: 'item', class: 'name', of: r => html`<a href=${to('item', { id: r.item_id })}>${called(r)}</a>` },
        { name: 'cosine', number: true, of: r => num(r.cosine, 2) }, { name: 'users', number: true, of: r => num(r.users) }]} />`}<//>`}`;
}
