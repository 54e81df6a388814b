// Search by name, source location, or task number, and the legend, whose entries each search for one name.

class Search {
  constructor(app, input) {
    Object.assign(this, { app, input, wanted: null, text: '' });
    let timer = 0;
    input.addEventListener('input', () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.set(input.value, false), app.trace.count > 200000 ? 160 : 0);
    });
    input.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') {
        clearTimeout(timer);
        this.set(input.value, false);
        this.step(event.shiftKey ? -1 : 1);
      } else if (event.key === 'Escape') {
        this.set('');
        find('surface').focus();
      }
    });
  }

  /** Searches for part of a name or of a source location, a name in quotes, or `#` followed by a task number. */
  set(text, isCopied = true) {
    const { app, input } = this,
      { trace } = app,
      { names, sites } = trace.head;
    if (isCopied) input.value = text;
    this.text = text = text.trim();
    if (/^#\d+$/.test(text)) {
      this.apply(null, app.selectNumber(Number(text.slice(1))) ? '1 task' : 'no such task');
      return;
    }
    if (text === '') {
      this.apply(null, '');
      return;
    }
    const exact = text.length > 2 && text.startsWith('"') && text.endsWith('"') ? text.slice(1, -1) : null;
    const lower = text.toLowerCase(),
      wanted = new Set();
    names.forEach(({ name }, at) => {
      if (exact === null ? name.toLowerCase().includes(lower) : name === exact) wanted.add(at);
    });
    if (exact === null) {
      sites.forEach((site, at) => {
        const name = trace.nameOfSite[at];
        if (name >= 0 && placeText(site).toLowerCase().includes(lower)) wanted.add(name);
      });
    }
    let count = 0;
    for (const at of wanted) count += names[at].count + names[at].unrun;
    this.apply(wanted, `${formatCount(count)} ${count === 1 ? 'task' : 'tasks'}`);
  }

  apply(wanted, message) {
    const { app } = this;
    const same =
      wanted === this.wanted ||
      (wanted && this.wanted && wanted.size === this.wanted.size && [...wanted].every((at) => this.wanted.has(at)));
    this.wanted = wanted;
    find('matches').textContent = message;
    document.querySelectorAll('[data-name]').forEach((node) => {
      const isWanted = wanted === null || wanted.has(Number(node.dataset.name));
      node.classList.toggle('dimmed', !isWanted);
      if (node.hasAttribute('aria-pressed')) node.setAttribute('aria-pressed', String(wanted !== null && isWanted));
    });
    if (same) return;
    colourRows(app.trace, app.rows, wanted);
    app.redraw();
  }

  /** Selects the next match, or the one before. */
  step(direction) {
    const { app, wanted } = this,
      { trace } = app;
    if (wanted === null || wanted.size === 0) return;
    let task = app.selection >= 0 ? app.selection : direction > 0 ? -1 : trace.count;
    for (let tried = 0; tried < trace.count; tried += 1) {
      task = (task + direction + trace.count) % trace.count;
      if (wanted.has(trace.name[task])) {
        app.select(task, true);
        return;
      }
    }
  }
}

/** The names that have a separate colour, largest first. */
function fillLegend(app) {
  const { names } = app.trace.head,
    total = names.reduce((sum, name) => sum + name.total, 0);
  const entry = (name, at) =>
    element(
      'button',
      {
        type: 'button',
        'data-name': at,
        'aria-pressed': 'false',
        title: `${name.name}: ${formatCount(name.count)} bodies, ${formatTime(name.total)}`,
        onclick: () => app.search.set(app.search.text === `"${name.name}"` ? '' : `"${name.name}"`),
      },
      element('i', { class: 'swatch', 'data-colour': colourOfName(at) }),
      element('span', {}, name.name),
      element('small', {}, formatPercent(name.total, total)),
    );
  const box = find('legend');
  box.append(...names.slice(0, OTHER).map(entry));
  if (names.length > OTHER) {
    box.append(
      element(
        'span',
        { class: 'other' },
        element('i', { class: 'swatch', 'data-colour': OTHER }),
        `${formatCount(names.length - OTHER)} other names`,
      ),
    );
  }
}
