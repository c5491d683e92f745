// Which items are there, who lies near whom, and which have worn out their users?
import { useState } from '../vendor/hooks.js';
import { html, many, query, to, useApi, useRest } from './lib.js';
import { Chart, Choice, Head, Panel, Table } from './parts.js';
import { itemColumns } from './overview.js';

/** A table of the API that goes on when asked. */
export function Pages({ path, values, columns, name, empty }) {
  const [cursor, go] = useState([]);
  const request = query(path, { ...values, limit: 50, cursor: cursor.at(-1) });
  const page = useApi(request);
  // After pages that are no longer kept the first one is asked for again.
  const again = () => (page.error?.code === 'cursor_expired' ? go([]) : page.again());
  return html`<${Panel} title=${name} of=${{ ...page, again }} request=${request}>${d => html`
    <${Table} name=${name} columns=${columns} rows=${d.rows} empty=${empty} />
    <p class="pages"><button type="button" disabled=${!cursor.length} onClick=${() => go(cursor.slice(0, -1))}>‹ Back</button>
      <span class="fine">page ${cursor.length + 1}${d.total ? ` of ${many(d.total, 'row')}` : ''}</span>
      <button type="button" disabled=${!d.next} onClick=${() => go([...cursor, d.next])}>More ›</button></p>`}<//>`;
}

/** What a table is sorted by, and which way. */
const SORTS = [['users', 'most users'], ['fresh_share asc', 'most worn out'], ['fresh_share', 'room to grow'],
  ['saturation', 'most repeats'], ['last_seen', 'latest'], ['id', 'by id']];

export function Items({ at }) {
  const [prefix, find] = useState(at.get('prefix') || '');
  const [sort, order] = useState(at.get('sort') || 'users');
  const wanted = useRest(prefix.trim());
  const [by, way] = sort.split(' ');
  const values = { prefix: wanted, sort: by, order: way };
  return html`<${Head} title="Items" request=${query('v1/items', { ...values, limit: 50 })}
      sub="Familiarity is learned per item: the map puts items with the same audience side by side." />
    <${Panel} title="Map of items" note="size: users · a click opens the item">
      <${Chart} path="dashboard/svg/items" label="Items by their audiences" pick=${id => (location.hash = to('item', { id }))} />
    <//>
    <form class="bar" onSubmit=${e => e.preventDefault()}>
      <input type="search" aria-label="Find items whose id or title begins with" placeholder="Begins with …" value=${prefix} onInput=${e => find(e.target.value)} />
      <${Choice} name="sort" label="Order" value=${sort} options=${SORTS} onPick=${order} />
    </form>
    <${Pages} key=${wanted + sort} path="v1/items" values=${values} columns=${itemColumns} name="All items"
      empty=${wanted ? `No item begins with “${wanted}”.` : 'No item was shown yet.'} />`;
}
