// What can be asked, with which words, and what comes back?
import { useMemo, useState } from '../vendor/hooks.js';
import { fetchRaw, html, query, seconds, settle, useApi } from './lib.js';
import { Curl, Empty, Field, Head, Panel, Table, Trouble } from './parts.js';

const METHODS = ['get', 'post', 'put', 'delete'];

function resolve(doc, schema) {
  const found = schema?.$ref ? schema.$ref.split('/').slice(1).reduce((o, k) => o?.[k], doc) : schema;
  return found || {};
}

/** A body that a schema would take. */
function example(doc, schema, deep = 0) {
  const s = resolve(doc, schema);
  if (s.example !== undefined) return s.example;
  if (s.examples?.length) return s.examples[0];
  if (s.default !== undefined && s.default !== null) return s.default;
  if (s.enum) return s.enum[0];
  const some = (s.oneOf || s.anyOf || s.allOf)?.find(x => x.type !== 'null');
  if (some && !s.properties) return example(doc, some, deep + 1);
  const type = [s.type].flat().find(t => t !== 'null');
  if (type === 'object' || s.properties) {
    const all = Object.entries(s.properties || {});
    // Where nothing must be there, the first of the alternatives.
    const wanted = s.required?.length ? all.filter(([k]) => s.required.includes(k)) : deep ? [] : all.slice(0, 1);
    return deep > 6 ? {} : Object.fromEntries(wanted.map(([k, v]) => [k, example(doc, v, deep + 1)]));
  }
  if (type === 'array') return deep > 6 ? [] : [example(doc, s.items, deep + 1)];
  return { string: 'text', integer: 1, number: 0.5, boolean: false }[type] ?? null;
}

const typeOf = (doc, schema) => {
  const s = resolve(doc, schema);
  const kinds = [s.type].flat().filter(t => t && t !== 'null');
  if (kinds[0] === 'array') return `list of ${typeOf(doc, s.items)}`;
  if (s.enum) return s.enum.join(' | ');
  return kinds[0] || (s.oneOf || s.anyOf)?.filter(x => x.type !== 'null').map(x => typeOf(doc, x)).join(' or ') || 'any';
};

function Fields({ doc, schema, name }) {
  const s = resolve(doc, schema);
  const rows = Object.entries(s.properties || {}).map(([key, v]) => ({ key, v, text: v.description || resolve(doc, v).description }));
  return rows.length ? html`<${Table} name=${name} rows=${rows} columns=${[
    { name: 'field', of: r => html`<code>${r.key}</code>${s.required?.includes(r.key) ? ' *' : ''}` },
    { name: 'type', of: r => typeOf(doc, r.v) }, { name: 'meaning', class: 'grow', of: r => r.text || '' }]} />` : null;
}

function Try({ doc, path, method, op }) {
  const params = (op.parameters || []).map(p => resolve(doc, p));
  const schema = op.requestBody?.content?.['application/json']?.schema;
  const [values, set] = useState({});
  const [text, write] = useState(() => (schema ? JSON.stringify(example(doc, schema), null, 2) : ''));
  const [state, tell] = useState({});
  let body;
  let wrong;
  try {
    body = schema ? JSON.parse(text) : undefined;
  } catch (e) {
    wrong = e.message;
  }
  const filled = path.replace(/\{(\w+)\}/g, (_, k) => encodeURIComponent(values[k] || k)).slice(1);
  const asked = Object.fromEntries(params.filter(p => p.in === 'query').map(p => [p.name, values[p.name]]));
  const request = { path: query(filled, asked), method: method.toUpperCase(), body };
  const send = async e => {
    e.preventDefault();
    const from = performance.now();
    try {
      const answer = await fetchRaw(request);
      const raw = await answer.text();
      let shown = raw;
      if (/json/.test(answer.headers.get('content-type'))) shown = JSON.stringify(JSON.parse(raw), null, 2);
      tell({ status: answer.status, took: performance.now() - from, shown: shown.length > 20_000 ? `${shown.slice(0, 20_000)}\n…` : shown,
        model: answer.headers.get('cadet-model') });
    } catch (error) {
      tell({ error });
    }
  };
  return html`<form class="try" onSubmit=${send}>
    ${params.filter(p => p.in !== 'header').map(p => html`<${Field} label=${`${p.name}${p.required ? ' *' : ''}`} hint=${p.description}>
      <input value=${values[p.name] || ''} placeholder=${typeOf(doc, p.schema)} onInput=${e => set({ ...values, [p.name]: e.target.value })} /><//>`)}
    ${schema && html`<${Field} label="Body"><textarea class="code" rows=${Math.min(14, text.split('\n').length + 1)} spellcheck="false" value=${text}
      onInput=${e => write(e.target.value)}></textarea><//>`}
    ${wrong && html`<p class="fine">The body is no JSON: ${wrong}</p>`}
    <p class="tools left"><button type="submit" class="act" disabled=${!!wrong}>Send</button><${Curl} of=${request} />
      ${state.status && html`<span class="fine" role="status">${state.status} in ${seconds(state.took / 1000)}${state.model ? ` by ${state.model}` : ''}</span>`}</p>
    ${state.error && html`<${Trouble} error=${state.error} />`}
    ${state.shown && html`<pre tabindex="0" aria-label="Answer">${state.shown}</pre>`}
  </form>`;
}

function Endpoint({ doc, path, method, op, open }) {
  const [shown, show] = useState(open);
  const id = `${method} ${path}`;
  const schema = op.requestBody?.content?.['application/json']?.schema;
  const codes = Object.entries(op.responses || {}).map(([code, r]) => ({ key: code, code, text: resolve(doc, r).description || '' }));
  return html`<details class="endpoint" open=${open} onToggle=${e => (show(e.target.open), e.target.open && settle('api', { at: id }))}>
    <summary><span class=${`method ${method}`}>${method.toUpperCase()}</span> <code>${path}</code> <span class="fine">${op.summary || ''}</span></summary>
    ${shown && html`<div class="inside">
      ${op.description && op.description !== op.summary && html`<p>${op.description}</p>`}
      ${schema && html`<${Fields} doc=${doc} schema=${schema} name=${`Fields of ${id}`} />`}
      ${(op['x-role'] || op.security) && html`<p class="fine">Role: ${op['x-role'] || (op.security.flatMap(s => Object.values(s).flat()).join(' or ') || 'none needed')}.</p>`}
      <${Try} doc=${doc} path=${path} method=${method} op=${op} />
      <details class="figures"><summary>Answers</summary><${Table} name=${`Answers of ${id}`} rows=${codes}
        columns=${[{ name: 'status', number: true, of: r => r.code }, { name: 'meaning', class: 'grow', of: r => r.text }]} /></details></div>`}
  </details>`;
}

export function Api({ at }) {
  const spec = useApi('openapi.json');
  const [text, find] = useState('');
  const groups = useMemo(() => {
    const by = new Map();
    for (const [path, ops] of Object.entries(spec.data?.paths || {})) {
      for (const method of METHODS.filter(m => ops[m])) {
        const tag = ops[method].tags?.[0] || 'other';
        by.set(tag, [...(by.get(tag) || []), { path, method, op: ops[method] }]);
      }
    }
    return [...by];
  }, [spec.data]);
  const fits = e => `${e.method} ${e.path} ${e.op.summary || ''}`.toLowerCase().includes(text.trim().toLowerCase());
  const shown = groups.map(([tag, list]) => [tag, list.filter(fits)]).filter(([, list]) => list.length);
  return html`<${Head} title="API" request="openapi.json" sub=${spec.data?.info?.description} />
    <form class="bar" onSubmit=${e => e.preventDefault()}><input type="search" aria-label="Find an endpoint" placeholder="Find an endpoint" value=${text} onInput=${e => find(e.target.value)} />
      <a href="openapi.json">openapi.json</a> <a href="docs/errors">all errors</a></form>
    <${Panel} of=${spec}>${doc => (shown.length ? shown.map(([tag, list]) => html`<h2>${tag[0].toUpperCase() + tag.slice(1)}</h2>
      ${list.map(e => html`<${Endpoint} key=${e.method + e.path} doc=${doc} ...${e} open=${at.get('at') === `${e.method} ${e.path}`} />`)}`)
      : html`<${Empty}>No endpoint fits “${text}”.<//>`)}<//>`;
}
