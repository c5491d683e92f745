// Pictures that answer the hand: drawn here, as SVG elements with attributes and classes alone.
import { useEffect, useRef, useState } from '../vendor/hooks.js';
import { html, num, pct, sign } from './lib.js';

/** The width that a picture has, as it changes: text keeps its size on every screen. */
function useWidth(first = 560) {
  const ref = useRef();
  const [width, set] = useState(first);
  useEffect(() => {
    const seen = new ResizeObserver(([entry]) => set(Math.max(240, Math.round(entry.contentRect.width))));
    seen.observe(ref.current);
    return () => seen.disconnect();
  }, []);
  return [ref, width];
}

function ticks(lo, hi, about) {
  const rough = (hi - lo) / Math.max(1, about);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find(m => rough <= power * m) || 10);
  const found = [];
  for (let v = Math.ceil(lo / step - 1e-9) * step; v <= hi + step * 1e-9; v += step) found.push(Math.abs(v) < step / 1e6 ? 0 : v);
  return [found, Math.max(0, Math.min(6, -Math.floor(Math.log10(step))))];
}

const path = points => points.map(([x, y], i) => `${i ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}`).join('');

/** A line of the last values, without axes; its figure stands beside it. */
export function Spark({ values, label, wide = 108, high = 26 }) {
  const known = (values || []).filter(Number.isFinite);
  if (known.length < 2) return html`<svg class="spark" width=${wide} height=${high} aria-hidden="true" />`;
  const [lo, hi] = [Math.min(0, ...known), Math.max(...known)];
  const at = (v, i) => [2 + (i / (known.length - 1)) * (wide - 6), high - 3 - ((v - lo) / (hi - lo || 1)) * (high - 6)];
  const line = known.map(at);
  const [x, y] = line.at(-1);
  return html`<svg class="spark" width=${wide} height=${high} role="img" aria-label=${label}>
    <path class="under" d=${`${path(line)}L${x} ${high}L2 ${high}Z`} /><path class="stroke" d=${path(line)} />
    <circle cx=${x} cy=${y} r="2.2" />
  </svg>`;
}

/** What part of a binned distribution is below a value; bins are taken as even inside. */
export function below(edges, counts, cut) {
  const all = counts.reduce((a, b) => a + b, 0);
  const sum = counts.reduce((s, c, i) => {
    const part = (cut - edges[i]) / (edges[i + 1] - edges[i] || 1);
    return s + c * Math.max(0, Math.min(1, part));
  }, 0);
  return all ? sum / all : 0;
}

/** Everybody and the audience over familiarity, and a cut that hand and keys can move. */
export function Cut({ edges, population, audience, cut, onCut }) {
  const [ref, wide] = useWidth();
  const high = 232;
  const [left, right, top, base] = [44, wide - 10, 18, high - 38];
  const [lo, hi] = [edges[0], edges.at(-1)];
  const shares = counts => {
    const all = counts.reduce((a, b) => a + b, 0) || 1;
    return counts.map(c => c / all);
  };
  const drawn = [['everyone', shares(population)], ['audience', shares(audience)]];
  const most = Math.max(...drawn.flatMap(([, s]) => s), 1e-9) * 1.06;
  const x = v => left + ((v - lo) / (hi - lo)) * (right - left);
  const y = v => base - (v / most) * (base - top);
  const steps = s => `M${x(lo)} ${base}${s.map((v, i) => `V${y(v).toFixed(1)}H${x(edges[i + 1]).toFixed(1)}`).join('')}V${base}Z`;
  const svg = useRef();
  const move = e => {
    const px = e.clientX - svg.current.getBoundingClientRect().left;
    const v = lo + ((px - left) / (right - left)) * (hi - lo);
    onCut(Math.round(Math.max(lo, Math.min(hi, v)) * 100) / 100);
  };
  const down = e => {
    svg.current.setPointerCapture(e.pointerId);
    move(e);
  };
  const key = e => {
    const step = { ArrowLeft: -0.05, ArrowDown: -0.05, ArrowRight: 0.05, ArrowUp: 0.05, PageDown: -0.5, PageUp: 0.5 }[e.key];
    const next = e.key === 'Home' ? lo : e.key === 'End' ? hi : step ? cut + step : undefined;
    if (next === undefined) return;
    e.preventDefault();
    onCut(Math.round(Math.max(lo, Math.min(hi, next)) * 100) / 100);
  };
  const [xs, digits] = ticks(lo, hi, wide / 90);
  const [ys] = ticks(0, most, 3);
  const words = `${num(cut, 2)}: ${pct(below(edges, population, cut))} of all users are less familiar`;
  return html`<div class="draw" ref=${ref}>
    <p class="key"><span class="swatch everyone"></span>all users <span class="swatch audience"></span>its audience</p>
    <svg ref=${svg} width=${wide} height=${high} role="group" aria-label="How familiar all users and the audience are"
      class="cut" onPointerDown=${down} onPointerMove=${e => e.buttons === 1 && move(e)}>
      ${ys.map(v => html`<path class="gridline" d=${`M${left} ${y(v)}H${right}`} />
        <text class="tick end" x=${left - 6} y=${y(v) + 4}>${pct(v)}</text>`)}
      <rect class="zone" x=${left} y=${top} width=${Math.max(0, x(cut) - left)} height=${base - top} />
      ${drawn.map(([name, s]) => html`<path class=${name} d=${steps(s)} />`)}
      <path class="axisline" d=${`M${left} ${base}H${right}`} />
      ${xs.map(v => html`<text class="tick middle" x=${x(v)} y=${base + 16}>${num(v, digits)}</text>`)}
      <text class="tick middle" x=${(left + right) / 2} y=${high - 4}>familiarity, nats</text>
      <g class="handle" role="slider" tabindex="0" aria-label="Fresh below" aria-valuemin=${lo} aria-valuemax=${hi}
        aria-valuenow=${cut} aria-valuetext=${words} onKeyDown=${key}>
        <rect class="grab" x=${x(cut) - 14} y=${top} width="28" height=${base - top + 22} />
        <path class="line" d=${`M${x(cut)} ${top}V${base}`} />
        <path class="knob" d=${`M${x(cut)} ${base - 1}l8 9v9h-16v-9z`} />
        <text class=${`value ${x(cut) > wide - 120 ? 'end' : 'start'}`} y=${top - 5}
          x=${x(cut) + (x(cut) > wide - 120 ? -7 : 7)}>fresh below ${num(cut, 2)}</text>
      </g>
    </svg>
  </div>`;
}

/** New users and repeats, a column a day. */
export function Days({ days }) {
  const [ref, wide] = useWidth();
  const high = 200;
  const [left, right, top, base] = [44, wide - 6, 8, high - 24];
  const at = d => Date.parse(d.day) / 864e5;
  const [from, to] = [at(days[0]), at(days.at(-1))];
  const step = (right - left) / Math.max(14, to - from + 1);
  const [ys, digits] = ticks(0, Math.max(...days.map(d => d.new + d.repeat), 1) * 1.05, 3);
  const y = v => base - (v / (Math.max(...days.map(d => d.new + d.repeat), 1) * 1.05)) * (base - top);
  const x = d => left + (at(d) - from) * step;
  const gap = step > 4 ? 1 : 0;
  const bar = (d, name, lo, hi) => hi > lo && html`<rect class=${name} x=${x(d)} width=${Math.max(1, step - gap)} y=${y(hi)} height=${y(lo) - y(hi)} />`;
  return html`<div class="draw" ref=${ref}>
    <p class="key"><span class="swatch fresh"></span>new to the user <span class="swatch common"></span>repeat</p>
    <svg width=${wide} height=${high} role="img" aria-label="New users and repeats by day: the table has the same figures">
      ${ys.map(v => html`<path class="gridline" d=${`M${left} ${y(v)}H${right}`} /><text class="tick end" x=${left - 6} y=${y(v) + 4}>${num(v, digits)}</text>`)}
      ${days.map(d => html`<g><title>${`${d.day}\n${num(d.new)} new, ${num(d.repeat)} repeats`}</title>
        ${bar(d, 'fresh', 0, d.new)}${bar(d, 'common', d.new, d.new + d.repeat)}</g>`)}
      <path class="axisline" d=${`M${left} ${base}H${right}`} />
      <text class="tick" x=${left} y=${high - 6}>${days[0].day}</text><text class="tick end" x=${Math.max(left + 160, Math.min(right, x(days.at(-1)) + step))} y=${high - 6}>${days.length > 1 ? days.at(-1).day : ''}</text>
    </svg></div>`;
}

/** A bar to the left or the right of 0, with its figure. */
export function Diverging({ value, most, digits = 2 }) {
  const part = Math.max(-1, Math.min(1, (value || 0) / (most || 1))) * 50;
  return html`<span class="diverging">
    <svg class="meter" aria-hidden="true"><rect class=${part < 0 ? 'fresh' : 'common'} x=${`${part < 0 ? 50 + part : 50}%`}
      width=${`${Math.abs(part)}%`} height="100%" rx="2" /><rect class="zero" x="50%" width="1" height="100%" /></svg>
    <span class="figure">${value == null ? '–' : sign(value, digits)}</span>
  </span>`;
}

/** Parts that add up: each begins where the one before it ended. */
export function Waterfall({ parts, total, label }) {
  const [ref, wide] = useWidth();
  const rows = [...parts, { name: 'familiarity', value: total, sum: true }];
  const [row, name] = [26, Math.min(260, wide * 0.42)];
  let at = 0;
  const spans = rows.map(r => {
    const from = r.sum ? 0 : at;
    if (!r.sum) at += r.value;
    return [from, r.sum ? total : at];
  });
  const [lo, hi] = [Math.min(0, ...spans.flat()), Math.max(0, ...spans.flat())];
  const x = v => name + 12 + ((v - lo) / (hi - lo || 1)) * (wide - name - 74);
  const fit = text => (text.length > name / 6.6 ? `${text.slice(0, Math.floor(name / 6.6) - 1)}…` : text);
  return html`<div class="draw" ref=${ref}><svg width=${wide} height=${rows.length * row + 6} role="img" aria-label=${label}>
    <path class="axisline" d=${`M${x(0)} 0V${rows.length * row}`} />
    ${rows.map((r, i) => {
      const [a, b] = spans[i];
      const y = i * row + 4;
      const tone = r.sum ? 'sum' : r.value < 0 ? 'fresh' : 'common';
      return html`<g><title>${`${r.name}\n${sign(r.value, 3)}`}</title>
        <text class=${`tick end${r.sum ? ' strong' : ''}`} x=${name} y=${y + 13}>${fit(r.name)}</text>
        ${i < rows.length - 1 && html`<path class="join" d=${`M${x(b)} ${y + 18}v${row - 18}`} />`}
        <rect class=${tone} x=${Math.min(x(a), x(b))} y=${y} width=${Math.max(1.5, Math.abs(x(b) - x(a)))} height="18" rx="2" />
        <text class=${`tick${r.sum ? ' strong' : ''}`} x=${Math.max(x(a), x(b)) + 6} y=${y + 13}>${sign(r.value)}</text></g>`;
    })}
  </svg></div>`;
}

/** A list before and after: each line one item, risen or fallen. */
export function Slopes({ items, most = 30 }) {
  const [ref, wide] = useWidth();
  const shown = items.filter(i => i.rank && i.rank <= most).slice(0, most);
  const rows = Math.max(...shown.map(i => Math.max(i.rank, i.was <= most ? i.was : 0)), 1);
  const row = 22;
  const name = Math.min(230, wide * 0.34);
  const [a, b] = [name + 8, wide - name - 8];
  const y = rank => 30 + (rank - 0.5) * row;
  const fit = text => (text.length > name / 7 - 3 ? `${text.slice(0, Math.floor(name / 7 - 4))}…` : text);
  const tone = i => (i.rank < i.was ? 'risen' : i.rank > i.was ? 'fallen' : 'same');
  return html`<div class="draw" ref=${ref}>
    <svg width=${wide} height=${30 + rows * row + 6} role="img" aria-label="The list before and after: the table has the same figures">
      <text class="tick strong end" x=${name} y="14">before</text><text class="tick strong" x=${wide - name} y="14">after</text>
      ${shown.map(i => html`<g class=${`slope ${tone(i)}`} key=${i.item_id}>
        <title>${`${i.label}: ${i.was} → ${i.rank}`}</title>
        ${i.was <= most && html`<text class="tick end" x=${name} y=${y(i.was) + 4}>${fit(i.label)} ${i.was}</text>
          <path d=${`M${a} ${y(i.was)}C${(a + b) / 2} ${y(i.was)} ${(a + b) / 2} ${y(i.rank)} ${b} ${y(i.rank)}`} />`}
        <text class="tick" x=${wide - name} y=${y(i.rank) + 4}>${i.rank} ${fit(i.label)}</text></g>`)}
    </svg></div>`;
}

/** Shares over a setting from 0 to 1, and a mark at the one chosen. Click or keys move it. */
export function Curves({ series, at, onPick, xLabel }) {
  const [ref, wide] = useWidth();
  const high = 220;
  const [left, right, top, base] = [46, wide - 12, 8, high - 36];
  const x = v => left + v * (right - left);
  const y = v => base - v * (base - top);
  const svg = useRef();
  const pick = e => {
    const v = (e.clientX - svg.current.getBoundingClientRect().left - left) / (right - left);
    onPick(Math.round(Math.max(0, Math.min(1, v)) * 20) / 20);
  };
  return html`<div class="draw" ref=${ref}>
    <p class="key">${series.map((s, i) => html`<span><span class=${`swatch k${i}`}></span>${s.name} </span>`)}</p>
    <svg ref=${svg} width=${wide} height=${high} role="img" aria-label="What each setting gives: the table has the same figures"
      class="curves" onPointerDown=${pick} onPointerMove=${e => e.buttons === 1 && pick(e)}>
      ${[0, 0.25, 0.5, 0.75, 1].map(v => html`<path class="gridline" d=${`M${left} ${y(v)}H${right}`} />
        <text class="tick end" x=${left - 6} y=${y(v) + 4}>${pct(v)}</text>
        <text class="tick middle" x=${x(v)} y=${base + 16}>${v}</text>`)}
      <text class="tick middle" x=${(left + right) / 2} y=${high - 2}>${xLabel}</text>
      <path class="cursor" d=${`M${x(at)} ${top}V${base}`} />
      ${series.map((s, i) => html`<g class=${`k${i}`}>
        <path class="stroke" d=${path(s.points.filter(p => p[1] != null).map(([a, b]) => [x(a), y(b)]))} />
        ${s.points.filter(p => p[1] != null).map(([a, b]) => html`<circle cx=${x(a)} cy=${y(b)} r=${Math.abs(a - at) < 0.01 ? 4.5 : 2.5}>
          <title>${`λ ${a}\n${s.name}: ${pct(b, 1)}`}</title></circle>`)}</g>`)}
    </svg></div>`;
}
