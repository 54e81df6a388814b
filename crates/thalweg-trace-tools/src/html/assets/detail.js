// The panel of the selected task: name, place, stages, predecessors and successors.

const OUTCOMES = ['did not run', 'done', 'failed', 'continued without its thread'];
/** Access modes, indexed by the number in the column. */
const MODES = ['reads', 'writes', 'updates', 'updates in any order', 'reduces into', 'is ordered by', 'updates atomically'];
const NOTES = [
  'poisoned: a predecessor failed',
  'its device refused memory',
  'came back from a lost device',
  'cancelled',
];
/** Maximum number of predecessors and successors to list. */
const LISTED = 100;

const dataName = (trace, number) => trace.dataNames.get(number) ?? `data ${number}`;
const nameText = (trace, name) => trace.head.names[name]?.name ?? 'other tasks';
const taskName = (trace, task) => trace.head.sites[trace.site[task]][0];

function placeText([, file, line, column]) {
  return file ? `${file}:${line}:${column}` : 'place unknown';
}

/** The other ends of a task's dependences, and the regions that it accesses. */
function neighboursOf(all, task) {
  const { from, to, about, firstOf, firstOut, outgoing } = all;
  const describe = (edge, other) => ({ task: other, data: (about[edge] >> 1) - 1, carries: (about[edge] & 1) === 1 });
  const predecessors = [],
    successors = [];
  for (let edge = firstOf[task]; edge < firstOf[task + 1]; edge += 1) predecessors.push(describe(edge, from[edge]));
  for (let at = firstOut[task]; at < firstOut[task + 1]; at += 1)
    successors.push(describe(outgoing[at], to[outgoing[at]]));
  const accesses = [];
  for (let at = all.firstAccess[task]; at < all.firstAccess[task + 1]; at += 1) {
    const region = all.region[at];
    const [data, bytes] = region < 0 ? [-1, NaN] : [all.regionData[region], all.regionBytes[region]];
    accesses.push({ mode: all.mode[at], region, data, bytes });
  }
  return { predecessors, successors, accesses };
}

class Detail {
  constructor(app, box) {
    Object.assign(this, { app, box });
  }

  /** Shows a task; with `edges`, also its predecessors and successors. */
  fill(task, edges) {
    const { app, box } = this,
      { trace } = app;
    box.replaceChildren();
    if (task < 0) return;
    const site = trace.head.sites[trace.site[task]];
    const isDone = trace.outcome[task] === 1 || trace.outcome[task] === 3;
    const notes = [];
    trace.notes.task.forEach(
      (of, at) => of === task && notes.push(`${NOTES[trace.notes.kind[at]]}, at ${formatTime(trace.notes.at[at])}`),
    );
    box.append(
      element(
        'div',
        { class: 'detail-head' },
        element('i', { class: 'swatch', 'data-colour': colourOfName(trace.name[task]) }),
        element('h3', {}, site[0]),
        element('span', { class: 'muted' }, `#${trace.number[task]}`),
        element(
          'button',
          { type: 'button', class: 'close', 'aria-label': 'Close', onclick: () => app.select(-1, false) },
          '×',
        ),
      ),
      element('p', { class: 'place' }, placeText(site)),
      element(
        'p',
        {},
        element('span', { class: isDone ? 'chip' : 'chip alert' }, OUTCOMES[trace.outcome[task]]),
        ' ',
        this.whereText(task),
      ),
      ...notes.map((note) => element('p', { class: 'chip alert' }, note)),
      this.stages(task),
      this.placement(task),
      ...this.reasonText(task),
      element(
        'p',
        { class: 'no-print' },
        Number.isNaN(trace.start[task])
          ? null
          : element('button', { type: 'button', onclick: () => app.zoomTo(task) }, 'Zoom to it'),
        trace.parent[task] >= 0 ? element('span', {}, ' submitted by ', this.link(trace.parent[task])) : null,
      ),
    );
    if (!edges) return;
    const { ready } = trace;
    const ended = (other) => (Number.isNaN(trace.finished[other]) ? -Infinity : trace.finished[other]);
    edges.predecessors.sort((one, other) => ended(other.task) - ended(one.task));
    edges.successors.sort((one, other) => trace.start[one.task] - trace.start[other.task]);
    box.append(
      this.list(
        'Waited for',
        edges.predecessors,
        (other) => {
          if (ended(other) === -Infinity) return 'did not end';
          const early = ready[task] - ended(other);
          return early <= 0 ? 'ended last' : `ended ${formatTime(early)} before it was ready`;
        },
        'before',
        'No task: it was ready when it was submitted.',
      ),
      this.list(
        'Waited for by',
        edges.successors,
        (other) =>
          Number.isNaN(trace.start[other])
            ? 'did not run'
            : `started ${formatTime(trace.start[other] - trace.end[task])} after it`,
        'after',
        'No task.',
      ),
    );
    if (edges.accesses.length > 0) box.append(this.accesses(edges.accesses));
    paintSwatches(box);
  }

  /** The regions that a task accesses. */
  accesses(entries) {
    const { trace } = this.app;
    const items = entries.slice(0, LISTED).map(({ mode, region, data, bytes }) => {
      const text = region < 0 ? 'a region' : trace.head.regions[region];
      return element(
        'li',
        {},
        [MODES[mode], data < 0 ? '' : dataName(trace, trace.dataNumber[data]), text].filter(Boolean).join(' '),
        region < 0 ? null : element('span', { class: 'muted' }, ` ${formatBytes(bytes)}`),
      );
    });
    return element(
      'section',
      { class: 'edges accesses' },
      element('h4', {}, `Accesses ${formatCount(entries.length)}`),
      element('ul', {}, items),
      entries.length > LISTED
        ? element('p', { class: 'muted' }, `${formatCount(entries.length - LISTED)} more are not listed.`)
        : null,
    );
  }

  whereText(task) {
    const { trace } = this.app,
      unit = trace.unit[task];
    if (Number.isNaN(trace.start[task])) return '';
    const device = trace.device[task] >= 0 ? `, device ${trace.device[task]}` : '';
    const stream = trace.stream[task] >= 0 ? `, stream ${trace.stream[task]}` : '';
    return `on ${unitName(trace, unit)}${device}${stream}, for ${formatTime(trace.end[task] - trace.start[task])}`;
  }

  /** The times at which the task reached each stage, and a bar that shows how long each stage took. */
  stages(task) {
    const { trace } = this.app;
    const all = [
      ['submitted', trace.submitted, ''],
      ['ready', trace.ready, 'waited for predecessors'],
      ['placed', trace.placed, 'waited for a unit'],
      ['reserved', trace.reserved, 'waited for memory'],
      ['in the queue', trace.launched, 'waited for copies'],
      ['started', trace.start, 'waited for the unit'],
      ['body ended', trace.end, 'ran'],
      ['ended', trace.finished, 'ran detached'],
    ];
    const known = all
      .map(([stage, times, why]) => ({ stage, at: times[task], why }))
      .filter(({ at }) => !Number.isNaN(at));
    if (known.at(-1)?.stage === 'ended' && known.at(-2)?.at === known.at(-1).at) known.pop();
    const longest = Math.max(...known.map(({ at }, index) => (index ? at - known[index - 1].at : 0)), 1);
    const step = Math.max((known.at(-1).at - known[0].at) / 1000, 1);
    return element(
      'table',
      { class: 'stages' },
      element(
        'tbody',
        {},
        known.map(({ stage, at, why }, index) => {
          const took = index === 0 ? 0 : at - known[index - 1].at;
          return element(
            'tr',
            {},
            element('th', { scope: 'row' }, stage),
            element('td', {}, formatMoment(at, step)),
            element(
              'td',
              {},
              index === 0
                ? null
                : element('i', {
                    class: why === 'ran' ? 'took ran' : 'took',
                    title: why,
                    style: { width: `${Math.max((64 * Math.max(took, 0)) / longest, 1)}px` },
                  }),
              index === 0 ? '' : ` ${formatTime(took)}`,
            ),
          );
        }),
      ),
    );
  }

  /** The policy that chose the unit, and how its estimates compare with what was measured. */
  placement(task) {
    const { trace } = this.app,
      policy = trace.head.policies[trace.policy[task]];
    if (policy === undefined) return null;
    const compare = (what, expected, measured) =>
      Number.isNaN(expected) || Number.isNaN(measured)
        ? null
        : element(
            'div',
            {},
            `${what} ${formatTime(expected)}, measured ${formatTime(measured)} `,
            expected > 0 ? element('b', {}, formatRatio(measured / expected)) : null,
          );
    const body = compare('Expected duration', trace.expected[task], trace.end[task] - trace.start[task]);
    const whole = compare('Expected from ready to end', trace.expectedEnd[task], trace.end[task] - trace.ready[task]);
    return element(
      'div',
      { class: 'reason placement' },
      element('div', {}, 'Placed by ', element('code', {}, policy), body || whole ? '' : ', which had no estimate'),
      body,
      whole,
    );
  }

  reasonText(task) {
    const { trace } = this.app;
    return Object.entries(PATHS)
      .map(([kind, { title }]) => {
        const at = trace[kind].tasks.indexOf(task);
        if (at < 0) return null;
        return element(
          'p',
          { class: 'reason' },
          `${title}, step ${at + 1} of ${trace[kind].tasks.length}: it started when ${
            REASONS[trace[kind].reasons[at]] ?? 'something unknown happened'
          }.`,
        );
      })
      .filter(Boolean);
  }

  /** A button that selects a task. */
  link(task) {
    const { app } = this,
      { trace } = app;
    return element(
      'button',
      { type: 'button', class: 'link', onclick: () => app.select(task, true) },
      element('i', { class: 'swatch', 'data-colour': colourOfName(trace.name[task]) }),
      taskName(trace, task),
      element('span', { class: 'muted' }, ` #${trace.number[task]}`),
    );
  }

  list(title, entries, describe, side, none) {
    const { trace } = this.app;
    const items = entries.slice(0, LISTED).map(({ task, data, carries }) => {
      const object = data >= 0 ? dataName(trace, trace.dataNumber[data]) : 'an unknown data object';
      return element(
        'li',
        {},
        this.link(task),
        element('div', { class: 'muted' }, `${carries ? 'value of' : 'order on'} ${object}`),
        element('div', { class: 'muted' }, describe(task)),
      );
    });
    return element(
      'section',
      { class: `edges ${side}` },
      element('h4', {}, `${title} ${entries.length > 0 ? formatCount(entries.length) : ''}`),
      items.length > 0 ? element('ul', {}, items) : element('p', { class: 'muted' }, none),
      entries.length > LISTED
        ? element('p', { class: 'muted' }, `${formatCount(entries.length - LISTED)} more are not listed.`)
        : null,
    );
  }
}

/** Gives the elements that stand for task names or shares their colours of the present theme. */
function paintSwatches(root) {
  const { theme } = scheme;
  root
    .querySelectorAll('[data-colour]')
    .forEach((node) => node.style.setProperty('--colour', theme.names[node.dataset.colour]));
  root.querySelectorAll('[data-share]').forEach((node) => {
    node.style.setProperty('--colour', theme.shares[node.dataset.share]);
    node.style.setProperty('--on', inkOn(theme.shares[node.dataset.share]));
  });
}
