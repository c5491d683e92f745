// Shows a chart's own <title> at once and beside the pointer; without this the browser shows it a little later.
(() => {
  const tip = document.createElement('div');
  tip.className = 'tip';
  tip.hidden = true;
  document.body.append(tip);
  let mark = null, title = null;
  const leave = () => {
    if (mark) mark.prepend(title);
    mark = title = null;
    tip.hidden = true;
  };
  document.addEventListener('pointermove', e => {
    let at = e.target instanceof Element ? e.target : null;
    while (at && at !== mark && !(at.closest('svg.cadet') && at.querySelector(':scope > title'))) at = at.parentElement;
    if (at !== mark) {
      leave();
      if (at) {
        mark = at;
        title = at.querySelector(':scope > title');
        tip.textContent = title.textContent;
        title.remove();
        tip.hidden = false;
      }
    }
    if (mark) {
      const box = tip.getBoundingClientRect();
      const x = Math.min(e.clientX + 14, innerWidth - box.width - 8);
      const below = e.clientY + 18;
      tip.style.left = Math.max(8, x) + 'px';
      tip.style.top = (below + box.height > innerHeight ? e.clientY - box.height - 10 : below) + 'px';
    }
  });
  document.addEventListener('pointerleave', leave);
  document.addEventListener('scroll', leave, true);
})();
