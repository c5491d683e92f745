// Which models are there, how good is each, and which one should answer?
import { useRef, useState } from '../vendor/hooks.js';
import { ago, bytes, call, html, many, moment, num, query, to, useApi } from './lib.js';
import { Chart, Curl, Empty, Head, Panel, Table, Trouble } from './parts.js';
import { Trust, WORDS } from './overview.js';

/** Whether who looks may change what answers: without keys everybody may. */
export function useMayAct() {
  const known = useApi('v1/session').data;
  return !!known && (!known.keys || known.roles.includes('admin'));
}

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
      await follow(begun.task_id);
    } catch (error) {
      set({ error });
    }
  };
  const { task, error } = state;
  const forceable = ['worse_than_chance', 'few_known_users'].includes((error || task?.problem)?.code);
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

const figures = [
  { name: 'held-out loss', of: x => num(x.test_loss, 4), title: 'Contrastive, per pair; lower is better' },
  { name: 'chance', of: x => num(x.chance_loss, 4) }, { name: 'AUC', of: x => num(x.auc, 4) },
  { name: 'calibration error', of: x => num(x.calibration_error, 3) }, { name: 'users', of: x => num(x.users) }, { name: 'items', of: x => num(x.items) },
  { name: 'size', of: x => bytes(x.bytes) },
].map(c => ({ ...c, number: true }));

export function Models({ at }) {
  const models = useApi('v1/models', 15_000);
  const d = models.data;
  const chosen = d && (d.models.find(x => x.version === at.get('id')) || d.models.find(x => x.is_current) || d.models[0]);
  const other = at.get('with') || (d && chosen && d.models.find(x => x.version !== chosen.version)?.version);
  const beside = d?.models.find(x => x.version === other);
  const answers = x => x.is_current;
  const mayAct = useMayAct();
  return html`<${Head} title="Models" request="v1/models" sub="Models never change: training makes a new one, and this page says which one answers.">
      ${mayAct && d?.models.some(x => x.is_restorable) && html`<${Act} label="Roll back" words="The model that answered before takes over again. Requests under way end with the model they began with."
        request=${{ path: 'v1/models/rollback', body: {} }} done=${models.again} />`}<//>
    <${Panel} title="All models" of=${models}>${() => html`<${Table} name="All models" rows=${d.models.map(x => ({ ...x, key: x.version }))} mark=${x => x.version === chosen?.version}
      empty="There is no model. Train one with cadet train LOG --into DIR." columns=${[
        { name: 'model', class: 'name', of: x => html`<a href=${to('models', { id: x.version })}>${x.version}</a>${answers(x) ? html` <span class="tag">answers</span>` : ''}` },
        { name: 'verdict', of: x => html`<span class=${`dot ${x.verdict?.colour || 'none'}`}></span>${WORDS[x.verdict?.colour || 'none']}` },
        { name: 'made', number: true, of: x => html`<span title=${moment(x.created)}>${ago(x.created)}</span>` },
        ...figures,
        { name: '', of: x => (answers(x) || !mayAct ? '' : html`<${Act} label="Promote" className="small" done=${models.again} request=${{ path: `v1/models/${x.version}/promote`, body: {} }}
          words=${`${x.version} is loaded, checked and brought up to date beside the one that answers; then it takes over. If anything is wrong the old one stays.`} />`) }]} />`}<//>
    ${chosen && html`<${Panel} title=${chosen.version} tools=${chosen.has_report && html`<a href=${`v1/models/${chosen.version}/report`} target="_blank" rel="noopener">whole report ↗</a>`}
        request=${`v1/models/${chosen.version}`}><${Trust} model=${chosen} /><//>
      <div class="grid two">
        <${Panel} title="Is σ(familiarity) a probability?" note="on the line it is"><${Chart} path=${`dashboard/svg/models/${chosen.version}/calibration`} label="Calibration" /><//>
        <${Panel} title="How training went"><${Chart} path=${`dashboard/svg/models/${chosen.version}/history`} label="Loss by epoch" /><//>
        <${Panel} title="On the future" note="gain over chance, a model of the past on what came later"><${Chart} path=${`dashboard/svg/models/${chosen.version}/future`} label="Gain by day" /><//>
        <${Panel} title="The same users everywhere?" note="places on the lists of the freshest"><${Chart} path="dashboard/svg/hubs" label="Hub share" /><//>
        <${Panel} title="Side by side">${beside ? html`<${Table} name="Two models side by side" columns=${[{ name: 'figure', of: r => r.name },
            { name: chosen.version, number: true, of: r => r.of(chosen) }, { name: beside.version, number: true, of: r => r.of(beside) }]}
            rows=${[...figures, { name: 'exposures', of: x => num(x.exposures) }, { name: 'made', of: x => moment(x.created) }]} />`
          : html`<${Empty}>There is only this one.<//>`}<//>
        <${Panel} title="Beside another" note="2,000 pairs scored by both" tools=${d.models.length > 1 && html`<select aria-label="Compare with"
            onChange=${e => (location.hash = to('models', { id: chosen.version, with: e.target.value }))}>
            ${d.models.filter(x => x.version !== chosen.version).map(x => html`<option value=${x.version} selected=${x.version === other}>${x.version}</option>`)}</select>`}>
          ${other ? html`<${Chart} path=${query('dashboard/svg/compare', { a: other, b: chosen.version })} label="Familiarity in both models" />`
            : html`<${Empty}>There is only this one.<//>`}<//>
      </div>
      <p class="fine foot">${many(d.models.length, 'model')} in the data folder.</p>`}`;
}
