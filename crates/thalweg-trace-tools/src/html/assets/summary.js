// The head of the report: facts, verdict, figures, shares of time, and failures.

/** Facts that are shown elsewhere or are meaningless to readers. */
const HIDDEN_FACTS = new Set([
  'program',
  'process',
  'runtime',
  'version',
  'scheduler',
  'started',
  'simulated',
  'ticks_per_ns',
  'sites of ranks',
  'threads of ranks',
  'units of ranks',
]);

function fillHead(app) {
  const { head } = app.trace,
    facts = new Map(head.facts);
  const kinds = new Map();
  head.units.forEach(({ kind }) => kinds.set(kind, (kinds.get(kind) ?? 0) + 1));
  const units = [...kinds].map(([kind, count]) => `${count} ${kind}`).join(' + ') || 'no units';
  const started = Number(facts.get('started')) / 1e6;
  const shown = [
    [facts.get('simulated') === 'true' ? 'simulated on' : 'on', units],
    ['scheduler', facts.get('scheduler')],
    ['runtime', facts.get('runtime')],
    ['started', started > 0 ? new Date(started).toISOString().replace('T', ' ').slice(0, 19) + ' UTC' : ''],
    ['thalweg', facts.get('version')],
    ['process', facts.get('process')],
    ...head.facts.filter(([key]) => !HIDDEN_FACTS.has(key)),
  ].filter(([, value]) => value);
  find('facts').append(...shown.map(([key, value]) => element('span', {}, element('em', {}, `${key} `), value)));
  find('program').title = facts.get('program') ?? '';
  const problem = find('problem');
  problem.hidden = head.problem === null;
  if (head.problem !== null)
    problem.textContent = `The file could not be read to its end, so the figures are of a part of the run: ${head.problem}`;
}

/** Renders text in which parts between backticks are code. */
const withCode = (text) =>
  text.split('`').map((part, at, all) => (at % 2 === 1 && at < all.length - 1 ? element('code', {}, part) : part));

/** The verdict, with its limit as a badge and the remedy on a separate line. */
function fillVerdict(app) {
  const { limit, sentence } = app.trace.head.verdict;
  const text = sentence.startsWith(`${limit}: `) ? sentence.slice(limit.length + 2) : sentence;
  const cut = text.lastIndexOf('; ');
  const box = find('verdict-text');
  const capital = (part) => part.charAt(0).toUpperCase() + part.slice(1);
  box.replaceChildren(
    element('span', { class: 'badge' }, limit),
    ' ',
    ...withCode(capital(cut < 0 ? text : text.slice(0, cut))),
    '.',
  );
  if (cut >= 0) find('remedy').append(element('b', {}, 'Try this: '), ...withCode(text.slice(cut + 2)), '.');
}

function fillTiles(app) {
  const { trace } = app,
    { head } = trace,
    span = head.end - head.begin;
  const sum = (field) => head.names.reduce((total, name) => total + name[field], 0);
  const whole = span * head.units_use.length,
    bytes = head.transfers.reduce((total, link) => total + link.bytes, 0);
  const failed = sum('failed'),
    unrun = sum('unrun'),
    bodies = sum('count');
  const tiles = [
    ['Run', formatTime(span), 'first submission to last end'],
    [
      'Tasks',
      formatCount(trace.count),
      [failed > 0 ? `${formatCount(failed)} failed` : '', unrun > 0 ? `${formatCount(unrun)} did not run` : '']
        .filter(Boolean)
        .join(', ') || (trace.count > 0 ? 'all ran' : 'none was submitted'),
    ],
    [
      'Computing',
      formatPercent(head.shares[0], whole),
      `of ${head.units_use.length} ${head.units_use.length === 1 ? 'unit' : 'units'} × run`,
    ],
    ['Mean body', bodies > 0 ? formatTime(sum('total') / bodies) : '–', `${formatTime(sum('total'))} in all`],
    ['Longest path', formatTime(head.critical_ns), `${formatPercent(head.critical_ns, span)} of the run`],
    [
      'Copied',
      formatBytes(bytes),
      `${formatCount(head.transfers.reduce((total, link) => total + link.copies, 0))} copies`,
    ],
  ];
  find('tiles').append(
    ...tiles.map(([title, figure, about]) =>
      element(
        'div',
        { class: 'tile' },
        element('span', {}, title),
        element('b', {}, figure),
        element('small', {}, about),
      ),
    ),
  );
}

/** A stacked bar of shares, which is full if they add up to `whole`. */
function shareBar(head, shares, whole, isLabelled) {
  const parts = head.activities.map(([activity, title], at) => {
    if (!(shares[at] > 0)) return null;
    const percent = (100 * shares[at]) / whole;
    return element(
      'i',
      {
        'data-share': activity,
        style: { width: `${percent}%` },
        title: `${title}: ${formatTime(shares[at])}, ${formatPercent(shares[at], whole)}`,
      },
      isLabelled && percent >= 6 ? formatPercent(shares[at], whole) : '',
    );
  });
  return element('div', { class: isLabelled ? 'bar' : 'bar thin' }, parts);
}

function fillShares(app) {
  const { head } = app.trace,
    span = head.end - head.begin,
    whole = span * head.units_use.length;
  if (!(whole > 0)) {
    find('shares').append(element('p', { class: 'muted' }, 'No unit had any time.'));
    return;
  }
  find('shares').append(
    shareBar(head, head.shares, whole, true),
    element(
      'ul',
      { class: 'share-legend' },
      head.activities.map(([activity, title], at) =>
        element(
          'li',
          { class: head.shares[at] > 0 ? '' : 'dimmed' },
          element('i', { class: 'swatch', 'data-share': activity }),
          element('span', {}, title),
          element('b', {}, formatPercent(head.shares[at], whole)),
          element('small', {}, formatTime(head.shares[at])),
        ),
      ),
    ),
    shareChart(head),
  );
  const line = (label, shares, total, about) =>
    element(
      'div',
      { class: 'unit-line', title: about },
      element('span', {}, label),
      shareBar(head, shares, total, false),
      element('b', {}, formatPercent(shares[0], total)),
    );
  const kinds = new Map();
  head.units_use.forEach(([tasks, shares], unit) => {
    const kind = head.units[unit]?.kind ?? '?';
    if (!kinds.has(kind)) kinds.set(kind, { count: 0, tasks: 0, shares: shares.map(() => 0) });
    const sum = kinds.get(kind);
    sum.count += 1;
    sum.tasks += tasks;
    shares.forEach((share, at) => (sum.shares[at] += share));
  });
  if (kinds.size > 1 && kinds.size < head.units_use.length) {
    find('shares').append(
      element(
        'div',
        { class: 'unit-lines kinds' },
        [...kinds].map(([kind, { count, tasks, shares }]) =>
          line(`${count} ${kind}`, shares, span * count, `${formatCount(tasks)} bodies`),
        ),
      ),
    );
  }
  const lines = element(
    'div',
    { class: 'unit-lines' },
    head.units_use.map(([tasks, shares], unit) =>
      line(unitName(app.trace, unit), shares, span, `${formatCount(tasks)} bodies`),
    ),
  );
  find('shares').append(
    head.units_use.length <= 16
      ? lines
      : element('details', {}, element('summary', {}, `Each of ${head.units_use.length} units`), lines),
  );
}

/** The shares over time, which show what all units did at each moment of the run. */
function shareChart({ use, activities, begin, end }) {
  const bins = use[0]?.values.length ?? 0,
    base = new Float64Array(bins);
  const areas = use.map(({ activity, values }, at) => {
    const upper = [],
      lower = [];
    values.forEach((value, bin) => {
      lower.push(`L${bin + 1} ${1000 - base[bin]}L${bin} ${1000 - base[bin]}`);
      base[bin] += value;
      upper.push(`L${bin} ${1000 - base[bin]}L${bin + 1} ${1000 - base[bin]}`);
    });
    if (!values.some((value) => value > 0)) return null;
    return element(
      'path',
      { 'data-share': activity, d: `M${upper.join('').slice(1)}${lower.reverse().join('')}Z` },
      element('title', {}, activities[at][1]),
    );
  });
  return element(
    'figure',
    { class: 'share-chart' },
    element(
      'svg',
      { viewBox: `0 0 ${bins} 1000`, preserveAspectRatio: 'none', role: 'img', 'aria-label': 'Shares over time' },
      areas,
    ),
    element(
      'figcaption',
      {},
      element('span', {}, formatTime(begin)),
      element('span', {}, 'shares over time'),
      element('span', {}, formatTime(end)),
    ),
  );
}

/** Tasks that failed, and tasks that did not run because of a failure or for other reasons. */
function fillFailures(app) {
  const { trace } = app,
    failed = [],
    noted = new Map(),
    unrun = [];
  trace.notes.task.forEach((task, at) => noted.set(task, NOTES[trace.notes.kind[at]]));
  for (let task = 0; task < trace.count; task += 1) {
    if (trace.outcome[task] === 2) failed.push(task);
    else if (Number.isNaN(trace.start[task])) unrun.push(task);
  }
  const box = find('failures-body');
  const list = (title, tasks) =>
    tasks.length > 0 &&
    box.append(
      element(
        'div',
        { class: 'card' },
        element('h3', {}, `${title}: ${formatCount(tasks.length)}`),
        element(
          'ul',
          {},
          tasks
            .slice(0, LISTED)
            .map((task) =>
              element(
                'li',
                {},
                app.detail.link(task),
                ' ',
                element(
                  'span',
                  { class: 'muted' },
                  [placeText(trace.head.sites[trace.site[task]]), noted.get(task)].filter(Boolean).join(' · '),
                ),
              ),
            ),
        ),
        tasks.length > LISTED
          ? element('p', { class: 'muted' }, `${formatCount(tasks.length - LISTED)} more are not listed.`)
          : null,
      ),
    );
  const notice = [
    failed.length > 0 ? `${formatCount(failed.length)} ${failed.length === 1 ? 'task' : 'tasks'} failed` : '',
    unrun.length > 0 ? `${formatCount(unrun.length)} did not run` : '',
  ]
    .filter(Boolean)
    .join(', ');
  if (notice)
    find('verdict').append(
      element(
        'p',
        { class: 'failed' },
        element(
          'a',
          {
            href: '#failures',
            onclick: (event) => {
              event.preventDefault();
              find('failures').scrollIntoView({ block: 'start' });
            },
          },
          `${notice}.`,
        ),
      ),
    );
  list('Failed', failed);
  list('Did not run', unrun);
  find('failures').hidden = box.children.length === 0;
}
