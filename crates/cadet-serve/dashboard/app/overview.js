// Can the model be trusted, is the service well, and who is being worn out?
import { ago, called, html, many, num, pct, query, seconds, short, to, useApi } from './lib.js';
import { Empty, Head, Panel, Share, Table, Verdict } from './parts.js';
import { useMetrics } from './metrics.js';
import { Spark } from './draw.js';

export const WORDS = { green: 'Trust it', amber: 'With care', red: 'Do not use it', none: 'No verdict' };

/** A model's verdict, and its figures beside what chance reaches. */
export function Trust({ model: m }) {
  const { verdict } = m;
  const colour = verdict?.colour || 'none';
  const check = (good, text) => html`<li><span class=${good ? 'good' : 'bad'} aria-hidden="true">${good ? '✓' : '✗'}</span>
    <span class="off">${good ? 'good: ' : 'bad: '}</span> ${text}</li>`;
  return html`<${Verdict} colour=${colour} word=${WORDS[colour]} reasons=${verdict?.reasons || []}
    lead=${html`<a href=${to('models', { id: m.version })}>${m.version}</a>, made ${ago(m.created)} from ${many(m.exposures, 'exposure')} of ${many(m.items, 'item')} by ${many(m.users, 'user')}`}>
    ${m.test_loss != null && html`<ul class="checks">
      ${check(m.test_loss < m.chance_loss, html`held-out loss <b>${num(m.test_loss, 3)}</b>, chance ${num(m.chance_loss, 3)}`)}
      ${m.auc != null && check(m.auc > 0.5, html`AUC <b>${num(m.auc, 3)}</b>, chance 0.5`)}
      ${check(m.calibration_error < 0.05, html`probabilities are off by <b>${num(m.calibration_error, 3)}</b>`)}
    </ul>`}
  <//>`;
}

const Figure = ({ name, value, unit, note, values, label }) => html`<div class="line">
  <div><span class="name">${name}</span><span class="big">${value}${unit && html`<small> ${unit}</small>`}</span>
    ${note && html`<span class="fine">${note}</span>`}</div>
  <${Spark} values=${values} label=${label || `${name}, since this page was opened`} />
</div>`;

const ROUTE = { route: /^\/v1\// };
const last = list => list.at(-1);

function Answers({ m }) {
  const rate = m.rates('cadet_http_requests_total', ROUTE);
  const q = share => seconds(m.quantile('cadet_http_request_duration_seconds', share, ROUTE));
  const failed = m.now('cadet_http_requests_total', { code: /^5/ }) || 0;
  return html`<${Panel} title="Answers">
    <${Figure} name="requests" value=${num(last(rate), last(rate) < 10 ? 1 : 0)} unit="/s" values=${rate} />
    <dl class="facts"><div><dt>p50</dt><dd>${q(0.5)}</dd></div><div><dt>p99</dt><dd>${q(0.99)}</dd></div>
      <div><dt>failed</dt><dd>${num(failed)}</dd></div><div><dt>shed</dt><dd>${num(m.now('cadet_http_shed_total') || 0)}</dd></div></dl>
  <//>`;
}

function Arrivals({ m }) {
  const rate = m.rates('cadet_exposures_total', { result: 'accepted' });
  const lag = Math.max(0, (m.now('cadet_wal_seq') || 0) - (m.now('cadet_folded_seq') || 0));
  return html`<${Panel} title="Ingest">
    <${Figure} name="exposures" value=${num(last(rate) ?? 0, last(rate) < 10 ? 1 : 0)} unit="/s" values=${rate} />
    <dl class="facts"><div><dt>fsync p99</dt><dd>${seconds(m.quantile('cadet_wal_fsync_duration_seconds', 0.99))}</dd></div>
      <div><dt>lag</dt><dd>${num(lag)}</dd></div><div><dt>rejected</dt><dd>${num(m.now('cadet_exposures_total', { result: 'rejected' }) || 0)}</dd></div>
      <div><dt>failed</dt><dd>${m.now('cadet_wal_failed') ? 'yes' : 'no'}</dd></div></dl>
  <//>`;
}

function Shown({ m }) {
  return html`<${Panel} title="What answers say">
    <${Figure} name="fresh share" value=${pct(m.now('cadet_fresh_ratio'))} values=${m.over('cadet_fresh_ratio')} />
    <${Figure} name="already seen" value=${pct(m.now('cadet_repeat_ratio'), 1)} values=${m.over('cadet_repeat_ratio')} />
    ${!m.now('cadet_rows_scored_total') && html`<p class="fine">Nothing was asked yet.</p>`}
  <//>`;
}

function Drift({ m }) {
  return html`<${Panel} title="Drift since training">
    <${Figure} name="unknown users" value=${pct(m.now('cadet_unknown_user_ratio'), 1)} values=${m.over('cadet_unknown_user_ratio')} />
    <dl class="facts one"><div><dt>model loaded</dt><dd>${m.now('cadet_model_loaded_timestamp_seconds') ? ago(m.now('cadet_model_loaded_timestamp_seconds')) : '–'}</dd></div>
      <div><dt>rows answered</dt><dd>${short(m.now('cadet_rows_scored_total') || 0)}</dd></div></dl>
  <//>`;
}

export const itemColumns = [
  { name: 'item', class: 'name', of: r => html`<a href=${to('item', { id: r.item_id })}>${called(r)}</a>` },
  { name: 'users', number: true, of: r => num(r.users) },
  { name: 'fresh left', number: true, title: 'Share of all users to whom it is fresh: familiarity below 0',
    of: r => html`<${Share} of=${r.fresh_share} tone=${r.fresh_share < 0.25 ? 'low' : ''} text=${pct(r.fresh_share)} />` },
  { name: 'repeats', number: true, title: 'Share of its exposures that were not the first', of: r => pct(r.saturation) },
];

export function Overview() {
  const models = useApi('v1/models', 30_000);
  const worn = useApi(query('v1/items', { sort: 'fresh_share', order: 'asc', limit: 8 }));
  const room = useApi(query('v1/items', { sort: 'fresh_share', limit: 8 }));
  const m = useMetrics();
  const list = (title, of, empty) => html`<${Panel} title=${title} of=${of} request=${of.request}>
    ${d => html`<${Table} name=${title} columns=${itemColumns} rows=${d.rows} empty=${empty} />`}<//>`;
  return html`<${Head} title="Overview" request="v1/models" />
    <${Panel} title="Can I trust it?" of=${models}>${d => {
      const current = d.models.find(x => x.is_current);
      return current ? html`<${Trust} model=${current} />` : html`<${Empty}>No model answers yet. Train one with
        <code>cadet train LOG --into DIR</code>, then promote it on the <a href="#/models">models page</a>.<//>`;
    }}<//>
    ${m.error ? html`<${Panel} title="Traffic" of=${m} />` : html`<div class="grid four" aria-live="off">
      <${Answers} m=${m} /><${Arrivals} m=${m} /><${Shown} m=${m} /><${Drift} m=${m} /></div>`}
    <div class="grid two">
      ${list('Most worn out', worn, 'No item was shown yet.')}
      ${list('Room to grow', room, 'No item was shown yet.')}
    </div>
    <p class="fine foot">Traffic is of this minute, read from <code>metrics</code> every 3 s while the page is open.
      ${m.ready ? ` ${many(m.now('cadet_http_requests_total') || 0, 'request')} since the service started.` : ''}</p>`;
}
