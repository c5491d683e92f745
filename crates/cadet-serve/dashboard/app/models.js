// Which models are there, how good is each, and which one should answer?
import { useRef, useState } from '../vendor/hooks.js';
import { ago, bytes, call, html, many, moment, num, query, sign, to, useApi } from './lib.js';
import { Chart, Curl, Empty, Head, Panel, Table, Trouble } from './parts.js';
import { Trust, WORDS } from './overview.js';

/** Asks before it acts, acts, and follows the task to its end. */
export function Act({ label, words, request, done, className }) {
  const dialog = useRef();
  const [state, set] = useState({});
  const follow = async id => {
    for (;;) {
      const task = await call(`v1/tasks/${id}`);
      set({ task });
      if (task.ended_at) break;
      await new Promise(rest => setTimeout(rest, 700));
    }
    done?.();
  };
  const act = async force => {
    set({ running: true });
    try {
      const begun = await call(force ? { ...request, body: { force: true } } : request);
      await follow(begun.task ?? begun.id ?? begun.task_id);
    } catch (error) {
      set({ error });
    }
  };
  const { task, error } = state;
  const forceable = ['worse_than_chance', 'few_known_users'].includes(error?.code);
  return html`<button type="button" class=${className} onClick=${() => (set({}), dialog.current.showModal())}>${label}</button>
    <dialog ref=${dialog} aria-label=${label}>
      <h2>${label}</h2><p>${words}</p>
      ${error && html`<${Trouble} error=${error} />`}
      ${task && html`<p role="status">${task.status}${task.phase && !task.ended_at ? `: ${task.phase}` : ''}${task.problem ? `: ${task.problem.detail}` : ''}</p>`}
      <p class="tools"><${Curl} of=${request} />
        ${forceable && html`<button type="button" onClick=${() => act(true)}>Do it all the same</button>`}
        ${!task && !error && html`<button type="button" class="act" disabled=${state.running} onClick=${() => act(false)}>${label}</button>`}
        <button type="button" onClick=${() => dialog.current.close()}>${task?.ended_at || error ? 'Close' : 'Cancel'}</button></p>
    </dialog>`;
}

const figure = m => [
  { name: 'held-out loss', of: x => num(x.metrics?.loss, 4), title: 'Contrastive, per pair; lower is better' },
  { name: 'chance', of: x => num(x.metrics?.chance_loss, 4) }, { name: 'AUC', of: x => num(x.metrics?.auc?.value, 4) },
  { name: 'future gain', of: x => (x.future ? sign(-x.future.gain.value, 4) : '–'), title: 'Nats a pair over chance on the last tenth of the time' },
  { name: 'calibration error', of: x => num(x.metrics?.calibration_error ?? x.metrics?.calibration?.error, 3) },
].map(c => ({ ...c, number: true })).concat(m);

export function Models({ at }) {
  const models = useApi('v1/models', 15_000);
  const d = models.data;
  const chosen = d && (d.models.find(x => x.name === at.get('id')) || d.models.find(x => x.name === d.current) || d.models[0]);
  const other = at.get('with') || (d && chosen && d.models.find(x => x.name !== chosen.name)?.name);
  const answers = x => x.name === d.current;
  return html`<${Head} title="Models" request="v1/models" sub="Models never change: training makes a new one, and this page says which one answers.">
      ${d?.models.length > 1 && html`<${Act} label="Roll back" words="The model that answered before takes over again. Requests under way end with the model they began with."
        request=${{ path: 'v1/models/rollback', body: {} }} done=${models.again} />`}<//>
    <${Panel} title="All models" of=${models}>${() => html`<${Table} name="All models" rows=${d.models.map(x => ({ ...x, key: x.name }))} mark=${x => x.name === chosen?.name}
      empty="There is no model. Train one with cadet train --data-dir DIR." columns=${[
        { name: 'model', class: 'name', of: x => html`<a href=${to('models', { id: x.name })}>${x.name}</a>${answers(x) ? html` <span class="tag">answers</span>` : ''}` },
        { name: 'verdict', of: x => html`<span class=${`dot ${x.verdict?.colour || 'none'}`}></span>${WORDS[x.verdict?.colour || 'none']}` },
        { name: 'made', number: true, of: x => html`<span title=${moment(x.created)}>${ago(x.created)}</span>` },
        ...figure([]), { name: 'size', number: true, of: x => bytes(x.bytes) },
        { name: '', of: x => (answers(x) ? '' : html`<${Act} label="Promote" className="small" done=${models.again} request=${{ path: `v1/models/${x.name}/promote`, body: {} }}
          words=${`${x.name} is loaded, checked and brought up to date beside the one that answers; then it takes over. If anything is wrong the old one stays.`} />`) }]} />`}<//>
    ${chosen && html`<${Panel} title=${chosen.name} tools=${html`<a href=${`v1/models/${chosen.name}/report`} target="_blank" rel="noopener">whole report ↗</a>`}
        request=${`v1/models/${chosen.name}`}><${Trust} model=${chosen} /><//>
      <div class="grid two">
        <${Panel} title="Is σ(familiarity) a probability?" note="on the line it is"><${Chart} path=${`dashboard/svg/models/${chosen.name}/calibration`} label="Calibration" /><//>
        <${Panel} title="How training went"><${Chart} path=${`dashboard/svg/models/${chosen.name}/history`} label="Loss by epoch" /><//>
        <${Panel} title="On the future" note="gain over chance, a model of the past on what came later"><${Chart} path=${`dashboard/svg/models/${chosen.name}/future`} label="Gain by day" /><//>
        <${Panel} title="Beside another" note="2,000 pairs scored by both" tools=${d.models.length > 1 && html`<select aria-label="Compare with"
            onChange=${e => (location.hash = to('models', { id: chosen.name, with: e.target.value }))}>
            ${d.models.filter(x => x.name !== chosen.name).map(x => html`<option value=${x.name} selected=${x.name === other}>${x.name}</option>`)}</select>`}>
          ${other ? html`<${Chart} path=${query('dashboard/svg/compare', { a: other, b: chosen.name })} label="Familiarity in both models" />`
            : html`<${Empty}>There is only this one.<//>`}<//>
      </div>
      <p class="fine foot">${many(d.models.length, 'model')} in the data folder.</p>`}`;
}
