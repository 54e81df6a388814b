// Work distributions: for each iteration space, the pivot and the time that each unit computed, instance by instance.

const CHART = { width: 560, height: 120, left: 54, bottom: 20, top: 8 };

/** A chart of lines over instances: `lines` have a title, a hue and a value per instance. */
function lineChart(title, lines, instances, format) {
  const { width, height, left, bottom, top } = CHART;
  const most = Math.max(...lines.flatMap(({ values }) => values), 1);
  const first = instances[0],
    span = Math.max(instances.at(-1) - first, 1);
  const x = (instance) => left + ((instance - first) / span) * (width - left - 10);
  const y = (value) => height - bottom - (value / most) * (height - bottom - top);
  const path = (values) =>
    values
      .map((value, at) => `${at === 0 ? 'M' : 'L'}${x(instances[at]).toFixed(1)} ${y(value).toFixed(1)}`)
      .join('');
  return element(
    'figure',
    {},
    element(
      'figcaption',
      {},
      title,
      lines.length > 1
        ? lines.map((line) =>
            element('span', {}, element('i', { class: 'swatch', 'data-colour': line.hue }), line.title),
          )
        : null,
    ),
    element(
      'svg',
      { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': title, class: 'chart' },
      [0, 0.5, 1].map((share) => [
        element('line', { x1: left, x2: width - 10, y1: y(most * share), y2: y(most * share) }),
        element('text', { x: left - 6, y: y(most * share) + 3, 'text-anchor': 'end' }, format(most * share)),
      ]),
      [first, first + span].map((instance, at) =>
        element(
          'text',
          { x: x(instance), y: height - 5, 'text-anchor': at ? 'end' : 'start' },
          `instance ${instance}`,
        ),
      ),
      lines.map(({ values, hue, title: name }) =>
        element('path', { d: path(values), 'data-colour': hue }, element('title', {}, name)),
      ),
    ),
  );
}

// The states of a search for an assignment, by number.
const SEARCH_STATES = ['initial', 'probes', 'moves the pivot', 'balances', 'steady'];

function fillDecisions(app) {
  const { trace } = app,
    { decisions, units } = trace.head;
  find('decisions').hidden = decisions.length === 0;
  for (const { space, entries } of decisions) {
    const instances = entries.map(([instance]) => instance);
    const kinds = [...new Set(units.map(({ kind }) => kind))];
    // Few units have a line each; many share one per kind, which is their mean.
    const groups =
      units.length <= 8
        ? units.map((_, unit) => ({ title: unitName(trace, unit), members: [unit] }))
        : kinds.map((kind) => ({
            title: `mean of ${kind}`,
            members: units.flatMap((unit, at) => (unit.kind === kind ? [at] : [])),
          }));
    const times = groups.map(({ title, members }, hue) => ({
      title,
      hue,
      values: entries.map(
        ([, , , , , computing]) => members.reduce((sum, unit) => sum + (computing[unit] ?? 0), 0) / members.length,
      ),
    }));
    const states = [];
    entries.forEach(([instance, , state]) => {
      if (states.at(-1)?.state !== state) states.push({ state, instance });
    });
    const [, , , pivot] = entries.at(-1);
    find('decisions-body').append(
      element(
        'div',
        { class: 'card' },
        element('h3', {}, space),
        element(
          'p',
          { class: 'muted' },
          `${formatCount(entries.length)} ${entries.length === 1 ? 'decision' : 'decisions'}; the pivot ended at ${formatCount(
            pivot,
          )}; states: ${states
            .slice(0, 12)
            .map(({ state, instance }) => `${SEARCH_STATES[state] ?? state} from instance ${instance}`)
            .join(', ')}${states.length > 12 ? ', …' : ''}.`,
        ),
        element(
          'div',
          { class: 'columns' },
          lineChart(
            'Pivot: the first index of the right cluster',
            [{ title: 'pivot', hue: 0, values: entries.map((entry) => entry[3]) }],
            instances,
            (value) => formatCount(value),
          ),
          lineChart('Time computed until the next decision', times, instances, formatTime),
        ),
      ),
    );
  }
}
