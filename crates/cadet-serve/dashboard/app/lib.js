// Requests, numbers in words, and where in the dashboard one is.
import { h } from '../vendor/preact.js';
import { useEffect, useState } from '../vendor/hooks.js';
import htm from '../vendor/htm.js';

export const html = htm.bind(h);

// ---- requests -------------------------------------------------------------------------------------------

/** A request is a path, or { path, method, body, accept, key }. Paths are relative, so that any prefix works. */
const whole = request => (typeof request === 'string' ? { path: request } : request);

/** What is known of the session; `locked` while the API wants a key. */
export const session = { locked: false, tell: () => {} };

export async function fetchRaw(request, signal) {
  const { path, method, body, accept, key } = whole(request);
  const headers = { accept: accept || 'application/json' };
  if (key) headers.authorization = `Bearer ${key}`;
  if (body !== undefined) headers['content-type'] = 'application/json';
  let answer;
  try {
    answer = await fetch(path, {
      method: method || (body === undefined ? 'GET' : 'POST'),
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      credentials: 'same-origin',
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw { status: 0, code: 'unreachable', detail: 'The service does not answer. Is it running?' };
  }
  if (answer.ok) {
    return answer;
  }
  let problem = {};
  try {
    problem = await answer.json();
  } catch {
    // A proxy in between may answer with a page.
  }
  if (answer.status === 401 && !key) {
    session.locked = true;
    session.tell();
  }
  throw { status: answer.status, code: `http_${answer.status}`, detail: answer.statusText, ...problem };
}

export async function call(request, signal) {
  const answer = await fetchRaw(request, signal);
  const data = answer.status === 204 ? null : await answer.json();
  for (const row of data?.rows || []) if (row.title) titles.set(row.item_id, row.title);
  return data;
}

/** What items are called, as far as answers said so. */
const titles = new Map();
export const called = row => row.title || titles.get(row.item_id) || row.item_id;

/** Asks when shown, when the request changes, and every so many milliseconds while the page is looked at. */
export function useApi(request, every = 0) {
  const key = request ? JSON.stringify(request) : '';
  const [state, set] = useState({ loading: !!key });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (!key) {
      set({ loading: false });
      return undefined;
    }
    const stop = new AbortController();
    let timer;
    const ask = async () => {
      try {
        const data = await call(JSON.parse(key), stop.signal);
        if (!stop.signal.aborted) set({ data, key, loading: false });
      } catch (error) {
        if (!stop.signal.aborted) set({ error, key, loading: false });
      }
      if (every && !stop.signal.aborted) timer = setTimeout(tick, every);
    };
    const tick = () => (document.hidden ? (timer = setTimeout(tick, every)) : ask());
    // What was there stays until the new answer comes: nothing jumps.
    set(s => ({ ...s, error: undefined, loading: true }));
    ask();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [key, turn, every]);
  return { ...state, request, again: () => setTurn(t => t + 1) };
}

/** A value that follows another one only after it has rested. */
export function useRest(value, milliseconds = 180) {
  const [rested, set] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => set(value), milliseconds);
    return () => clearTimeout(timer);
  }, [value, milliseconds]);
  return rested;
}

export const query = (path, values) => {
  const given = Object.entries(values).filter(([, v]) => v !== undefined && v !== '' && v !== null);
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
};

const quote = text => `'${text.replaceAll("'", "'\\''")}'`;

/** The same request for a terminal. */
export function curl(request) {
  const { path, method, body, accept } = whole(request);
  const parts = ['curl -sS', '-H "Authorization: Bearer $CADET_KEY"'];
  if (accept) parts.push(`-H ${quote(`Accept: ${accept}`)}`);
  if (method && method !== (body === undefined ? 'GET' : 'POST')) parts.push(`-X ${method}`);
  if (body !== undefined) {
    parts.push(`-H 'Content-Type: application/json'`, `-d ${quote(JSON.stringify(body))}`);
  }
  return [...parts, quote(new URL(path, document.baseURI.split('#')[0]).href)].join(' \\\n  ');
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without TLS browsers have no clipboard for pages; the old way still works.
    const area = document.createElement('textarea');
    area.value = text;
    area.className = 'off';
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
}

/** Hands a text to the browser as a file. */
export function save(name, blob) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// ---- numbers and times in words -------------------------------------------------------------------------

const signed = text => text.replace('-', '−');
const is = v => typeof v === 'number' && Number.isFinite(v);

export const num = (v, digits = 0) =>
  is(v) ? signed(v.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits })) : '–';
export const sign = (v, digits = 2) => (is(v) ? (v > 0 ? '+' : '') + num(v, digits) : '–');
export const pct = (v, digits = 0) => (is(v) ? `${num(v * 100, digits)} %` : '–');
export const many = (v, one, more = `${one}s`) => `${num(v)} ${v === 1 ? one : more}`;
export const short = v =>
  !is(v) ? '–' : Math.abs(v) >= 1e6 ? `${num(v / 1e6, 1)}M` : Math.abs(v) >= 1e4 ? `${num(v / 1e3, 0)}k` : num(v, 0);
export const prob = v => (!is(v) ? '–' : v > 0 && v < 0.001 ? '< 0.001' : num(v, 3));

export function bytes(v) {
  if (!is(v)) return '–';
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let k = 0;
  for (; v >= 1000 && k < 4; k += 1) v /= 1000;
  return `${num(v, k && v < 100 ? 1 : 0)} ${units[k]}`;
}

export function seconds(v) {
  if (!is(v)) return '–';
  if (v < 0.001) return `${num(v * 1e6)} µs`;
  if (v < 1) return `${num(v * 1e3, v < 0.01 ? 1 : 0)} ms`;
  if (v < 90) return `${num(v, v < 10 ? 1 : 0)} s`;
  if (v < 5400) return `${num(v / 60)} min`;
  if (v < 48 * 3600) return `${num(v / 3600)} h`;
  return `${num(v / 86400)} days`;
}

export const ago = at => (at ? `${seconds(Math.max(0, Date.now() / 1000 - at))} ago` : 'never');
export const day = at => (at ? new Date(at * 1000).toISOString().slice(0, 10) : '–');
export const moment = at => (at ? new Date(at * 1000).toISOString().slice(0, 16).replace('T', ' ') : '–');

// ---- where one is ---------------------------------------------------------------------------------------

export function where() {
  const [path, rest] = location.hash.replace(/^#\/?/, '').split('?');
  return { page: path || 'overview', at: new URLSearchParams(rest || '') };
}

export const to = (page, values = {}) => `#/${query(page, values)}`;

/** Changes the address without a new entry in the history. */
export function settle(page, values) {
  history.replaceState(null, '', to(page, values));
}

/** Remembers a choice of looks; never a key. */
export const kept = {
  get: name => {
    try {
      return localStorage.getItem(`cadet-${name}`);
    } catch {
      return null;
    }
  },
  set: (name, value) => {
    try {
      localStorage.setItem(`cadet-${name}`, value);
    } catch {
      // Private windows may refuse; the choice then lasts as long as the page.
    }
  },
};
