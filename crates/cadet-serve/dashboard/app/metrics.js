// What /metrics says, and how it moved since this page was opened.
import { useEffect, useState } from '../vendor/hooks.js';
import { fetchRaw } from './lib.js';

const KEPT = 120;
const EVERY = 3000;
const history = [];
const listeners = new Set();
let timer;
let turn = 0;
let trouble;

/** One line of the text format: name, labels, value. */
function read(text) {
  const found = new Map();
  for (const line of text.split('\n')) {
    const m = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!m) continue;
    const labels = Object.fromEntries([...(m[2] || '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(l => [l[1], l[2]]));
    if (!found.has(m[1])) found.set(m[1], []);
    found.get(m[1]).push({ labels, value: m[3] === '+Inf' ? Infinity : Number(m[3]) });
  }
  return found;
}

/** Looks now and again after a while, until nobody listens or another one has begun to. */
async function tick(own) {
  if (!document.hidden) {
    try {
      const text = await (await fetchRaw({ path: 'metrics', accept: 'text/plain' })).text();
      history.push({ at: Date.now() / 1000, all: read(text) });
      history.splice(0, Math.max(0, history.length - KEPT));
      trouble = undefined;
    } catch (error) {
      trouble = error;
    }
    listeners.forEach(tell => tell({}));
  }
  if (own === turn) timer = setTimeout(tick, history.length < 2 ? 1000 : EVERY, own);
}

const fits = (labels, want) => Object.entries(want).every(([k, v]) => (v instanceof RegExp ? v.test(labels[k]) : labels[k] === v));

function sum(sample, name, want = {}) {
  const rows = sample?.all.get(name)?.filter(r => fits(r.labels, want));
  return rows?.length ? rows.reduce((s, r) => s + r.value, 0) : undefined;
}

/** Buckets of a histogram as [upper end, count in it]. */
function buckets(sample, name, want = {}, since) {
  const read = s => {
    const by = new Map();
    for (const r of s?.all.get(`${name}_bucket`)?.filter(r => fits(r.labels, want)) || []) {
      const le = r.labels.le === '+Inf' ? Infinity : Number(r.labels.le);
      by.set(le, (by.get(le) || 0) + r.value);
    }
    return by;
  };
  const [now, before] = [read(sample), since ? read(since) : new Map()];
  let last = 0;
  return [...now].sort((a, b) => a[0] - b[0]).map(([le, count]) => {
    const total = count - (before.get(le) || 0);
    const here = [le, Math.max(0, total - last)];
    last = total;
    return here;
  });
}

/** Below which value a share of a histogram lies, even inside a bucket. */
function quantile(list, share) {
  const all = list.reduce((s, b) => s + b[1], 0);
  if (!all) return undefined;
  let [seen, from] = [0, 0];
  for (const [to, count] of list) {
    if (seen + count >= share * all) return to === Infinity ? from : from + ((share * all - seen) / count) * (to - from);
    [seen, from] = [seen + count, to];
  }
  return from;
}

/** Looks at /metrics every few seconds while a page that shows it is open. */
export function useMetrics() {
  const [, tell] = useState({});
  useEffect(() => {
    listeners.add(tell);
    if (listeners.size === 1) tick(++turn);
    return () => {
      listeners.delete(tell);
      if (!listeners.size) {
        clearTimeout(timer);
        turn++;
      }
    };
  }, []);
  const now = history.at(-1);
  return {
    error: history.length ? undefined : trouble,
    ready: !!now,
    now: (name, want) => sum(now, name, want),
    by: name => now?.all.get(name) || [],
    over: (name, want) => history.map(s => sum(s, name, want)),
    /** A second's worth of a counter, at each look. */
    rates: (name, want) =>
      history.slice(1).map((s, i) => {
        const [a, b] = [sum(history[i], name, want), sum(s, name, want)];
        return b === undefined ? undefined : Math.max(0, (b - (a || 0)) / (s.at - history[i].at || 1));
      }),
    buckets: (name, want) => buckets(now, name, want),
    /** Of the last minute; of all time where nothing came in it. */
    quantile: (name, share, want) =>
      quantile(buckets(now, name, want, history.at(-21) || history[0]), share) ?? quantile(buckets(now, name, want), share),
  };
}
