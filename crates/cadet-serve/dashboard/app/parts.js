// What every page is put together from: panels with their states, tables, charts from the server.
import { useEffect, useRef, useState } from '../vendor/hooks.js';
import { copy, curl, fetchRaw, html, to } from './lib.js';

export function Copy({ text, label, title }) {
  const [done, set] = useState(false);
  const act = async () => {
    await copy(typeof text === 'function' ? text() : text);
    set(true);
    setTimeout(() => set(false), 1500);
  };
  return html`<button type="button" class="quiet" title=${title} onClick=${act}>
    <span aria-live="polite">${done ? 'copied' : label}</span>
  </button>`;
}

export const Curl = ({ of }) =>
  of && html`<${Copy} text=${() => curl(of)} label="copy as curl" title="This request for a terminal" />`;

/** The top of a page: where one is, what it is about, and its request for a terminal. */
export function Head({ title, sub, from, request, children }) {
  useEffect(() => {
    document.title = `${typeof title === 'string' ? title : 'cadet'} · cadet`;
  }, [title]);
  return html`<div class="head">
    <div>
      ${from && html`<a class="from" href=${to(from)}>‹ ${from[0].toUpperCase() + from.slice(1)}</a>`}
      <h1>${title}</h1>
      ${sub && html`<p class="sub">${sub}</p>`}
    </div>
    <div class="tools">${children}<${Curl} of=${request} /></div>
  </div>`;
}

/** What the API said instead of an answer. */
export function Trouble({ error, again }) {
  const faults = (error.errors || []).filter(f => f.detail && !String(error.detail).includes(f.detail));
  return html`<div class="trouble" role="alert">
    <p><strong>${error.detail || error.title || 'Something went wrong.'}</strong></p>
    ${faults.map(f => html`<p>${f.pointer}: ${f.detail}</p>`)}
    ${error.nearest?.length > 0 && html`<p>Near: ${error.nearest.join(', ')}</p>`}
    <p class="fine">
      <code>${error.code}</code>${error.request_id ? html` · request <code>${error.request_id}</code>` : ''}
      ${again && html` · <button type="button" class="link" onClick=${again}>try again</button>`}
    </p>
  </div>`;
}

export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;

/** A part of a page. `of` is what useApi returned; the child gets its answer once it is there. */
export function Panel({ title, note, of, tools, wide, request, children }) {
  const body = !of
    ? children
    : of.error
      ? html`<${Trouble} error=${of.error} again=${of.again} />`
      : of.data === undefined
        ? of.loading
          ? html`<div class="wait" role="status"><span class="off">loading</span><i></i><i></i><i></i></div>`
          : null
        : children(of.data);
  return html`<section class=${`panel${wide ? ' wide' : ''}`} aria-busy=${of?.loading ? 'true' : 'false'}>
    ${(title || tools || request) &&
    html`<header><h2>${title}</h2>${note && html`<p class="note">${note}</p>`}
      <span class="tools">${tools}<${Curl} of=${request} /></span></header>`}
    ${body}
  </section>`;
}

/** Columns: { name, of: row => cell, number, class, title }. */
export function Table({ columns, rows, empty = 'Nothing here.', name, mark }) {
  if (!rows.length) return html`<${Empty}>${empty}<//>`;
  const cls = c => (c.number ? 'number' : c.class || '');
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${name}>
    <table>
      <thead><tr>${columns.map(c => html`<th scope="col" class=${cls(c)} title=${c.title}>${c.name}</th>`)}</tr></thead>
      <tbody>${rows.map((r, i) => html`<tr key=${r.key ?? i} class=${mark?.(r) ? 'mark' : ''}>
        ${columns.map(c => html`<td class=${cls(c)}>${c.of(r, i)}</td>`)}</tr>`)}</tbody>
    </table>
  </div>`;
}

/** A table behind a chart: the same figures for readers of numbers and of screens. */
export const AsTable = ({ label = 'as a table', ...rest }) =>
  html`<details class="figures"><summary>${label}</summary><${Table} ...${rest} /></details>`;

/** A bar from 0 to 1 with its figure beside it. */
export const Share = ({ of, text, tone = '' }) => html`<span class="share">
  <svg class=${`meter ${tone}`} aria-hidden="true"><rect class="rail" width="100%" height="100%" rx="3" />
    <rect width=${`${Math.max(0, Math.min(1, of || 0)) * 100}%`} height="100%" rx="3" /></svg>
  <span class="figure">${text}</span>
</span>`;

/** A chart that the server draws. */
export function Chart({ path, pick, label }) {
  const place = useRef();
  const [state, set] = useState({ loading: true });
  useEffect(() => {
    const stop = new AbortController();
    set({ loading: true });
    const wide = Math.round(place.current.parentElement.clientWidth / 10) * 10;
    fetchRaw({ path: `${path}${path.includes('?') ? '&' : '?'}w=${wide}`, accept: 'image/svg+xml' }, stop.signal)
      .then(answer => answer.text())
      .then(text => {
        const svg = new DOMParser().parseFromString(text, 'image/svg+xml').documentElement;
        if (stop.signal.aborted || !place.current) return;
        place.current.replaceChildren(document.importNode(svg, true));
        const marks = pick ? [] : [...svg.querySelectorAll('title')].slice(0, 200);
        set({ marks: marks.map(mark => mark.textContent.split('\n')) });
      })
      .catch(error => stop.signal.aborted || set({ error }));
    return () => stop.abort();
  }, [path]);
  const click = e => pick && e.target.closest('[data-id]') && pick(e.target.closest('[data-id]').dataset.id);
  return html`<div class="chart" aria-label=${label} role=${label ? 'group' : undefined}>
    ${state.loading && html`<div class="wait" role="status"><span class="off">loading</span><i></i><i></i><i></i></div>`}
    ${state.error && html`<${Trouble} error=${state.error} />`}
    <div ref=${place} class=${pick ? 'pick' : ''} hidden=${state.loading || !!state.error} onClick=${click}></div>
    ${state.marks?.length > 0 && html`<${AsTable} name=${label} rows=${state.marks} columns=${[
      { name: 'mark', of: m => m[0] }, { name: 'figures', of: m => m.slice(1).join(' · ') }]} />`}
  </div>`;
}

/** A colour, a word, and the sentences that belong to it. */
export function Verdict({ colour, word, lead, reasons = [], children }) {
  const mark = { green: '●', amber: '▲', red: '■' }[colour] || '○';
  return html`<div class=${`verdict ${colour || 'none'}`}>
    <p class="word"><span aria-hidden="true">${mark}</span> ${word}</p>
    <div>${lead && html`<p class="lead">${lead}</p>`}
      ${reasons.length > 0 && html`<ul>${reasons.map(r => html`<li>${r}</li>`)}</ul>`}${children}</div>
  </div>`;
}

export const Field = ({ label, children, hint }) =>
  html`<label class="field"><span>${label}</span>${children}${hint && html`<small>${hint}</small>`}</label>`;

/** Radio buttons that look like one switch. */
export const Choice = ({ name, label, value, options, onPick }) => html`<fieldset class="choice">
  <legend class="off">${label}</legend>
  ${options.map(([key, text]) => html`<label><input type="radio" name=${name} value=${key} checked=${key === value}
    onChange=${() => onPick(key)} /><span>${text}</span></label>`)}
</fieldset>`;
