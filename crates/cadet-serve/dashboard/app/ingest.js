// Does everything that arrives get written, counted and folded in?
import { useState } from '../vendor/hooks.js';
import { ago, bytes, call, html, many, num, pct, seconds, useApi } from './lib.js';
import { Curl, Empty, Field, Head, Panel, Share, Table, Trouble, Verdict } from './parts.js';
import { Act, useMayAct } from './models.js';
import { useMetrics } from './metrics.js';
import { Spark } from './draw.js';

function Health({ status: s, m }) {
  const lag = Math.max(0, s.durable_seq - (s.folded_seq ?? 0));
  const failed = s.storage_failed;
  const slow = m.quantile('cadet_wal_fsync_duration_seconds', 0.99);
  const colour = failed ? 'red' : lag > 100_000 || slow > 0.25 ? 'amber' : 'green';
  const word = { green: 'All is written', amber: 'Behind', red: 'Not writing' }[colour];
  return html`<${Verdict} colour=${colour} word=${word}
    lead=${failed ? 'A write failed: nothing more is taken until the service is restarted. Reads go on.'
      : html`Everything up to <b>${num(s.durable_seq)}</b> is on the disk, up to <b>${num(s.folded_seq ?? 0)}</b> in the model.`}
    reasons=${[`${many(lag, 'entry waits', 'entries wait')} to be folded in.`, `Repeated events are known by their ids ${seconds(s.dedup_horizon_seconds)} back.`]} />`;
}

const Line = ({ name, value, values }) => html`<div class="line"><div><span class="name">${name}</span><span class="big">${value}</span></div>
  <${Spark} values=${values} label=${name} /></div>`;

function Latency({ m, name, title }) {
  const list = m.buckets(name);
  const all = list.reduce((s, b) => s + b[1], 0);
  const most = Math.max(...list.map(b => b[1]), 1);
  const rows = list.map(([to, count], i) => ({ from: i ? list[i - 1][0] : 0, to, count }));
  return html`<${Panel} title=${title} note=${all ? `p50 ${seconds(m.quantile(name, 0.5))} · p99 ${seconds(m.quantile(name, 0.99))}` : ''}>
    ${!all ? html`<${Empty}>Nothing was written yet.<//>` : html`<${Table} name=${title} rows=${rows} columns=${[
      { name: 'took', number: true, of: r => (r.to === Infinity ? `over ${seconds(r.from)}` : `≤ ${seconds(r.to)}`) },
      { name: 'share', class: 'grow', of: r => html`<${Share} of=${r.count / most} text=${pct(r.count / all, 1)} />` },
      { name: 'commits', number: true, of: r => num(r.count) }]} />`}<//>`;
}

function Send() {
  const [text, set] = useState('');
  const [state, tell] = useState({});
  let exposures = [];
  const bad = [];
  text.split('\n').forEach((line, i) => {
    if (!line.trim()) return;
    try {
      exposures.push(JSON.parse(line));
    } catch {
      const [user_id, item_id, timestamp] = line.split(',').map(p => p.trim());
      if (user_id && item_id) exposures.push({ user_id, item_id, ...(timestamp ? { timestamp: /^\d+$/.test(timestamp) ? +timestamp : timestamp } : {}) });
      else bad.push(i + 1);
    }
  });
  const request = { path: 'v1/exposures?partial=true', body: { exposures } };
  const send = async e => {
    e.preventDefault();
    tell({ busy: true });
    try {
      tell({ answer: await call(request) });
    } catch (error) {
      tell({ error });
    }
  };
  const { answer: a, error } = state;
  return html`<${Panel} title="Send exposures by hand" note="they are counted for ever" request=${exposures.length ? request : null}>
    <form onSubmit=${send}><${Field} label="One a line: user,item,time, or JSON"><textarea rows="4" value=${text} onInput=${e => set(e.target.value)}
        placeholder=${'4480,318,1763524800\n{"user_id":"4480","item_id":"1","event_id":"e-1"}'}></textarea><//>
      <p><button type="submit" class="act" disabled=${!exposures.length || bad.length > 0 || state.busy}>Send ${many(exposures.length, 'exposure')}</button>
        ${bad.length > 0 && html` <span class="fine">Line ${bad[0]} cannot be read.</span>`}</p></form>
    ${error && html`<${Trouble} error=${error} />`}
    ${a && html`<p class="say" role="status"><b>${num(a.accepted)} accepted</b>, ${many(a.duplicates, 'duplicate')}, ${num(a.rejected_count)} rejected; on the disk at ${num(a.seq)}.</p>
      ${a.rejected?.length > 0 && html`<${Table} name="Rejected rows" rows=${a.rejected} columns=${[
        { name: 'where', of: r => r.pointer }, { name: 'why', of: r => r.detail }, { name: 'code', of: r => html`<code>${r.code}</code>` }]} />`}`}
  <//>`;
}

const taskColumns = [
  { name: '#', number: true, of: t => t.id }, { name: 'task', class: 'name', of: t => `${t.kind.replaceAll('_', ' ')} ${t.subject}` },
  { name: 'status', of: t => html`<span class=${`dot ${{ succeeded: 'green', failed: 'red', running: 'amber' }[t.status] || 'none'}`}></span>${t.status}${t.phase && !t.ended_at ? `: ${t.phase}` : ''}` },
  { name: 'asked for', number: true, of: t => ago(t.enqueued_at) },
  { name: 'took', number: true, of: t => (t.ended_at ? seconds(t.ended_at - t.enqueued_at) : '–') },
  { name: 'why', of: t => (t.problem ? html`${t.problem.detail} <code>${t.problem.code}</code>` : '') },
];

export function Ingest() {
  const status = useApi('v1/status', 3000);
  const tasks = useApi('v1/tasks', 5000);
  const m = useMetrics();
  const mayAct = useMayAct();
  const s = status.data;
  const rate = m.rates('cadet_exposures_total', { result: 'accepted' });
  const of = result => m.now('cadet_exposures_total', { result }) || 0;
  const streams = m.by('cadet_stream_lag');
  return html`<${Head} title="Ingest" request="v1/status">${mayAct && html`<${Act} label="Back up" request=${{ path: 'v1/backup', method: 'POST' }} done=${tasks.again}
      words="Copies the data folder as of now into backups/, by hard links where the disk allows it." />`}<//>
    <${Panel} title="Is everything written?" of=${status}>${s => html`<${Health} status=${s} m=${m} />`}<//>
    <div class="grid two">
      <${Panel} title="Arrivals"><${Line} name="exposures" value=${html`${num(rate.at(-1) ?? 0, 1)}<small> /s</small>`} values=${rate} />
        <dl class="facts"><div><dt>accepted</dt><dd>${num(of('accepted'))}</dd></div><div><dt>duplicates</dt><dd>${num(of('duplicate'))}</dd></div>
          <div><dt>rejected</dt><dd>${num(of('rejected'))}</dd></div><div><dt>waiting</dt><dd>${bytes(s?.queue_bytes)}</dd></div>
          <div><dt>log</dt><dd>${bytes(s?.log_bytes)}</dd></div><div><dt>disk free</dt><dd>${bytes(s?.disk_free_bytes)}</dd></div></dl><//>
      <${Latency} m=${m} name="cadet_wal_fsync_duration_seconds" title="How long the disk takes" />
    </div>
    <${Send} />
    <${Panel} title="Streams">${streams.length ? html`<${Table} name="Streams" rows=${streams} columns=${[{ name: 'stream', of: r => r.labels.stream },
      { name: 'partition', of: r => r.labels.partition }, { name: 'not read yet', number: true, of: r => num(r.value) }]} />` : html`<${Empty}>No stream is read: exposures come over HTTP.<//>`}<//>
    <${Panel} title="Tasks" of=${tasks} request="v1/tasks">${d => html`<${Table} name="Tasks" rows=${d.tasks.map(t => ({ ...t, key: t.id }))} columns=${taskColumns} empty="No task was started yet." />`}<//>`;
}
