// The shell: pages by their address, search, looks, and the key.
import { render } from '../vendor/preact.js';
import { useEffect, useRef, useState } from '../vendor/hooks.js';
import { call, called, html, kept, many, query, session, to, useApi, useRest, where } from './lib.js';
import { Field, Trouble } from './parts.js';
import { Overview } from './overview.js';
import { Items } from './items.js';
import { Item } from './item.js';
import { User, Users } from './user.js';
import { Rerank } from './rerank.js';
import { Models } from './models.js';
import { Ingest } from './ingest.js';
import { Api } from './api.js';

const PAGES = { overview: Overview, items: Items, item: Item, users: Users, user: User, rerank: Rerank, models: Models, ingest: Ingest, api: Api };
const NAV = [['overview', 'Overview'], ['items', 'Items'], ['users', 'Users'], ['rerank', 'Rerank'], ['models', 'Models'], ['ingest', 'Ingest'], ['api', 'API']];
const INSIDE = { item: 'items', user: 'users' };

/** Finds items and users by how their names begin. */
function Search() {
  const [text, set] = useState('');
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(0);
  const input = useRef();
  const wanted = useRest(text.trim());
  const items = useApi(wanted && query('v1/items', { prefix: wanted, limit: 6 }));
  const users = useApi(wanted && query('v1/users', { prefix: wanted, limit: 4 }));
  const found = !text.trim() ? [] : [
    ...(items.data?.rows || []).map(r => ({ key: `i${r.item_id}`, name: called(r), kind: 'item', note: many(r.users, 'user'), go: to('item', { id: r.item_id }) })),
    ...(users.data?.rows || []).map(r => ({ key: `u${r.user_id}`, name: r.user_id, kind: 'user', note: many(r.exposures ?? r.items, 'exposure'), go: to('user', { id: r.user_id }) })),
  ];
  useEffect(() => {
    const key = e => {
      const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName);
      if (e.key === '/' && !typing && !e.ctrlKey && !e.metaKey && !e.altKey) {
        e.preventDefault();
        input.current.focus();
        input.current.select();
      }
    };
    addEventListener('keydown', key);
    return () => removeEventListener('keydown', key);
  }, []);
  const go = hit => {
    location.hash = hit.go;
    set('');
    setOpen(false);
    input.current.blur();
  };
  const keys = e => {
    if (e.key === 'ArrowDown' || e.key === 'ArrowUp') {
      e.preventDefault();
      setAt(k => (k + (e.key === 'ArrowDown' ? 1 : found.length - 1)) % (found.length || 1));
    } else if (e.key === 'Enter' && found[at]) go(found[at]);
    else if (e.key === 'Escape') (setOpen(false), input.current.blur());
  };
  const shown = open && text.trim() !== '';
  return html`<div class="search" role="search">
    <input ref=${input} type="search" placeholder="Search an item or user" aria-label="Search an item or user" value=${text}
      role="combobox" aria-expanded=${shown ? 'true' : 'false'} aria-controls="found" aria-autocomplete="list" autocomplete="off"
      aria-activedescendant=${shown && found[at] ? `found-${at}` : undefined} spellcheck="false"
      onInput=${e => (set(e.target.value), setOpen(true), setAt(0))} onKeyDown=${keys} onFocus=${() => setOpen(true)}
      onBlur=${() => setTimeout(() => setOpen(false), 150)} />
    <kbd aria-hidden="true">/</kbd>
    <ul id="found" role="listbox" aria-label="Found" hidden=${!shown || !found.length}>
      ${found.map((f, i) => html`<li key=${f.key} id=${`found-${i}`} role="option" aria-selected=${i === at ? 'true' : 'false'}
        onPointerDown=${e => (e.preventDefault(), go(f))}><span>${f.name}</span><small>${f.kind} · ${f.note}</small></li>`)}
    </ul>
    ${shown && !found.length && !items.loading && !users.loading && wanted === text.trim() &&
    html`<p class="none" role="status">${items.error?.detail || `Nothing begins with “${wanted}”.`}</p>`}
  </div>`;
}

const LOOKS = { auto: ['◐', 'light', 'as the system'], light: ['○', 'dark', 'light'], dark: ['●', 'auto', 'dark'] };

function Looks() {
  const [look, set] = useState(kept.get('theme') || 'auto');
  const [glyph, next, words] = LOOKS[look] || LOOKS.auto;
  const turn = () => {
    kept.set('theme', next);
    if (next === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    set(next);
  };
  return html`<button type="button" class="quiet" onClick=${turn} title=${`Colours: ${words}`}
    aria-label=${`Colours: ${look}. Change to ${next}`}><span aria-hidden="true">${glyph}</span> ${look}</button>`;
}

function Login({ entered }) {
  const [key, set] = useState('');
  const [error, fail] = useState();
  const enter = async e => {
    e.preventDefault();
    try {
      await call({ path: 'v1/session', method: 'POST', key: key.trim() });
      entered();
    } catch (problem) {
      fail(problem);
    }
  };
  return html`<form class="login panel" onSubmit=${enter}>
    <h1>cadet</h1>
    <p>This service asks for a key. It is kept in a session cookie for 12 hours, never in the browser's storage.</p>
    <${Field} label="Key"><input type="password" name="key" autocomplete="current-password" required value=${key}
      onInput=${e => set(e.target.value)} placeholder="cadet_r_…" /><//>
    ${error && html`<${Trouble} error=${error.status === 401 ? { ...error, detail: 'This key is not known, or it has expired.' } : error} />`}
    <button type="submit" class="act">Enter</button>
    <p class="fine">Make one with <code>cadet key new --role read</code>.</p>
  </form>`;
}

function Key({ locked }) {
  const known = useApi(locked ? null : 'v1/session');
  const leave = async () => {
    await call({ path: 'v1/session', method: 'DELETE' }).catch(() => {});
    session.locked = true;
    session.tell();
  };
  const { name, role } = known.data || {};
  return name ? html`<button type="button" class="quiet" title=${`Role: ${role}. Leave`} onClick=${leave}>${name} ⎋</button>` : null;
}

function App() {
  const [place, move] = useState(where());
  const [, redraw] = useState(0);
  const main = useRef();
  const first = useRef(true);
  useEffect(() => {
    session.tell = () => redraw(n => n + 1);
    const turn = () => move(where());
    addEventListener('hashchange', turn);
    return () => removeEventListener('hashchange', turn);
  }, []);
  useEffect(() => {
    // A new page is read from its top; the first one leaves the focus where browsers put it.
    if (!first.current) {
      main.current.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
    first.current = false;
  }, [place.page, place.at.get('id')]);
  const Page = PAGES[place.page];
  const entered = () => {
    session.locked = false;
    redraw(n => n + 1);
  };
  const current = key => ((INSIDE[place.page] || place.page) === key ? 'page' : undefined);
  const skip = e => (e.preventDefault(), main.current.focus());
  return html`<a class="skip" href="#main" onClick=${skip}>To the content</a>
    <div class="top"><a class="brand" href="#/overview" aria-label="cadet: overview"><svg width="18" height="18" viewBox="0 0 18 18" aria-hidden="true">
      <rect x="1" y="10" width="4" height="7" rx="1" /><rect x="7" y="5" width="4" height="12" rx="1" /><rect x="13" y="1" width="4" height="16" rx="1" /></svg>cadet</a>
      <nav aria-label="Pages">${NAV.map(([key, name]) => html`<a href=${`#/${key}`} aria-current=${current(key)}>${name}</a>`)}</nav>
      ${session.locked ? '' : html`<${Search} />`}
      <div class="looks"><${Looks} /><${Key} locked=${session.locked} /></div></div>
    <main id="main" tabindex="-1" ref=${main}>
      ${session.locked
        ? html`<${Login} entered=${entered} />`
        : Page
          ? html`<${Page} at=${place.at} key=${`${place.page} ${place.at.get('id') || ''}`} />`
          : html`<div class="panel"><p class="empty">There is no page “${place.page}”. <a href="#/overview">To the overview</a></p></div>`}
    </main>`;
}

render(html`<${App} />`, document.getElementById('app'));
