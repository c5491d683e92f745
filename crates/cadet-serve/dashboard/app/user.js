// What is a user tired of, what is fresh to them, and why?
import { useState } from '../vendor/hooks.js';
import { ago, called, html, many, num, pct, prob, query, settle, sign, to, useApi, useRest } from './lib.js';
import { AsTable, Copy, Empty, Field, Head, Panel, Table, Verdict } from './parts.js';
import { Diverging, Waterfall } from './draw.js';
import { Pages } from './items.js';

export function Users({ at }) {
  const [prefix, find] = useState(at.get('prefix') || '');
  const wanted = useRest(prefix.trim());
  return html`<${Head} title="Users" sub="Users the model knows, or that arrived since." request=${query('v1/users', { prefix: wanted, limit: 50 })} />
    <form class="bar" onSubmit=${e => e.preventDefault()}><input type="search" aria-label="Find users whose id begins with"
      placeholder="Begins with …" value=${prefix} onInput=${e => find(e.target.value)} /></form>
    <${Pages} key=${wanted} path="v1/users" values=${{ prefix: wanted }} name="All users" empty=${wanted ? `No user begins with “${wanted}”.` : 'No user was seen yet.'}
      columns=${[{ name: 'user', class: 'name', of: r => html`<a href=${to('user', { id: r.user_id })}>${r.user_id}</a>` },
        { name: 'items seen', number: true, of: r => num(r.items) }, { name: 'exposures', number: true, of: r => num(r.exposures) },
        { name: 'last seen', number: true, of: r => (r.last_seen ? ago(r.last_seen) : '–') }]} />`;
}

const ofItems = (most, pick) => [
  { name: 'item', class: 'name', of: r => html`<a href=${to('item', { id: r.item_id })}>${called(r)}</a>` },
  { name: 'familiarity', of: r => html`<${Diverging} value=${r.familiarity} most=${most} />` },
  { name: 'p', number: true, of: r => prob(r.p_value) },
  { name: 'seen', number: true, title: 'How often this user saw it', of: r => num(r.times_seen) },
  { name: '', of: r => html`<button type="button" class="link" onClick=${() => pick(r.item_id)}>why?</button>` },
];

/** The parts that add up to a score. */
function parts({ parts: p }) {
  const list = (rows, kind) => rows.map(r => ({ name: kind === 'feature' ? r.name : `${kind} ${r.name}`, kind, value: r.part }));
  return [{ name: 'average user, average item', kind: 'start', value: p.start }, ...list(p.features, 'feature'), ...list(p.seen_items, 'saw'),
    { name: 'what else the user adds', kind: 'user', value: p.user_rest }, ...list(p.seed_tasks, 'item is like'),
    { name: 'what else the item adds', kind: 'item', value: p.item_rest }, { name: 'normalising', kind: 'scale', value: p.normaliser }];
}

/** The large ones by themselves, the small ones together. */
const large = parts => {
  const all = parts.filter(p => Math.abs(p.value) > 1e-9);
  const big = new Set([...all].sort((a, b) => Math.abs(b.value) - Math.abs(a.value)).slice(0, 11));
  const rest = all.filter(p => !big.has(p));
  const shown = all.filter(p => big.has(p));
  return rest.length ? [...shown, { name: many(rest.length, 'smaller part'), value: rest.reduce((s, p) => s + p.value, 0) }] : shown;
};

function Why({ user, item, pick }) {
  const wanted = useRest(item, 300);
  const request = wanted && query('v1/explain', { user_id: user, item_id: wanted });
  const why = useApi(request);
  return html`<${Panel} title="What if shown …" request=${request} wide>
    <form class="bar" onSubmit=${e => e.preventDefault()}><${Field} label="item"><input value=${item} placeholder="the id of an item"
      onInput=${e => pick(e.target.value.trim())} /><//></form>
    ${!wanted && html`<${Empty}>Name an item, or press “why?” beside one, to see what its score is made of.<//>`}
    <${Panel} of=${why}>${d => {
      const f = d.familiarity;
      const colour = f < -0.7 ? 'green' : f < 0.7 ? 'amber' : 'red';
      return html`<${Verdict} colour=${colour} word=${{ green: 'Fresh', amber: 'So so', red: 'Familiar' }[colour]}
          lead=${html`Users like ${user} are <b>${num(Math.exp(Math.abs(f)), 1)} times</b> as ${f < 0 ? 'rare' : 'common'} in the audience of <a href=${to('item', { id: d.item_id })}>${called(d)}</a>${' '}as among all users.`}
          reasons=${[`${pct(d.quantile)} of all users are less familiar with it.`, d.times_seen ? `Seen ${many(d.times_seen, 'time')} already.` : 'Never seen.']} />
        <${Waterfall} parts=${large(parts(d))} total=${f} label=${`Parts that add up to ${sign(f)}`} />
        <${AsTable} name="Parts of the score" rows=${parts(d)} columns=${[{ name: 'part', of: r => r.name }, { name: 'kind', of: r => r.kind }, { name: 'adds', number: true, of: r => sign(r.value, 3) }]} />
        ${d.nearest_items.length > 0 && html`<h3>Items with the same audience</h3><${Table} name="Nearest items" rows=${d.nearest_items}
          columns=${[ofItems(1, pick)[0], { name: 'cosine', number: true, of: r => num(r.cosine, 2) },
            { name: 'familiarity', number: true, of: r => sign(r.familiarity) }, { name: 'seen', number: true, of: r => num(r.times_seen) }]} />`}`;
    }}<//>
  <//>`;
}

export function User({ at }) {
  const id = at.get('id') || '';
  const request = query('v1/user', { id, n: 15 });
  const user = useApi(request);
  const [item, setItem] = useState(at.get('item') || '');
  const pick = v => (setItem(v), settle('user', { id, item: v }));
  const d = user.data;
  const most = d && Math.max(...[...d.tired, ...d.fresh].map(r => Math.abs(r.familiarity || 0)), 1);
  const list = (title, rows, empty) => html`<${Panel} title=${title}><${Table} name=${title} rows=${rows} columns=${ofItems(most, pick)} empty=${empty} /><//>`;
  return html`<${Head} from="users" title=${`User ${id}`} request=${request}
      sub=${d && html`${many(d.items, 'item')} seen · ${many(d.exposures, 'exposure')}${d.last_seen ? html` · last ${ago(d.last_seen)}` : ''}`}>
      <${Copy} text=${id} label="copy id" /><//>
    ${!d && html`<${Panel} of=${user}>${() => ''}<//>`}
    ${d && html`<div class="grid two">${list('Tired of', d.tired, 'Nothing is familiar yet.')}${list('Fresh', d.fresh, 'Everything was seen.')}</div>
      ${list('Seen last', d.history, 'Nothing was seen yet.')}
      <${Why} user=${id} item=${item} pick=${pick} />`}`;
}
