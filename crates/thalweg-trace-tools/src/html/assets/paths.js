// The two paths through a run: the longest one through dependences, which no number of units could shorten, and the
// chain of causes, which leads from the last end back to the beginning. One of them is drawn over the timeline.

const PATHS = {
  critical: {
    title: 'Longest path',
    about: 'The longest sequence of bodies that depend on each other: no number of units makes the run shorter.',
  },
  chain: {
    title: 'Chain of causes',
    about: 'From the last end back to the beginning, each time to what the task waited for last.',
  },
};
/** Reasons why a task on a path started when it did, indexed by the number in the column. */
const REASONS = [
  'a predecessor ended',
  'it was submitted',
  'its unit became free',
  'its data arrived',
  'memory became free',
  'it did not start',
];

/** Returns the first step of a path that ends after a given time. Steps are in order of time. */
function firstStepAfter(trace, tasks, time) {
  let low = 0,
    high = tasks.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (trace.end[tasks[middle]] < time) low = middle + 1;
    else high = middle;
  }
  return Math.max(low - 1, 0);
}

/** Draws a path along each body and on to the next. Steps within one pixel become one vertical line. */
function drawPath(context, app, tasks, theme) {
  const { trace, timeline, view } = app,
    path = new Path2D();
  let column = NaN,
    low = 0,
    high = 0,
    steps = 0;
  const flush = () => {
    if (high - low < 1) return;
    path.moveTo(column + 0.5, low);
    path.lineTo(column + 0.5, high);
  };
  for (let at = firstStepAfter(trace, tasks, view.from); at < tasks.length; at += 1) {
    const place = placeOf(app, tasks[at]);
    if (!place) continue;
    const y = place.lane.y + place.lane.height - Math.min(2, place.lane.height / 2);
    const left = Math.max(place.left, GUTTER - 20),
      right = clamp(place.right, left, timeline.width + 20);
    if (Math.floor(right) === column) {
      [low, high] = [Math.min(low, y), Math.max(high, y)];
      continue;
    }
    flush();
    if (steps > 0) path.lineTo(left, y);
    else path.moveTo(left, y);
    path.lineTo(right, y);
    steps += 1;
    [column, low, high] = [Math.floor(right), y, y];
    if (place.left > timeline.width) break;
  }
  flush();
  context.lineJoin = 'round';
  // Drawing too many steps would hide the lanes.
  const isDense = steps > timeline.plot / 25;
  for (const [colour, width, opacity] of isDense
    ? [
        [theme.paper, 2.5, 0.5],
        [theme.path, 1.25, 1],
      ]
    : [
        [theme.paper, 5, 0.8],
        [theme.path, 2.5, 1],
      ]) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.globalAlpha = opacity;
    context.stroke(path);
  }
  context.globalAlpha = 1;
}

/** The section about both paths: their lengths, and how their time divides by task name and by reason. */
function fillPaths(app) {
  const { trace } = app,
    span = trace.head.end - trace.head.begin;
  const box = find('paths-body');
  for (const [kind, { title, about }] of Object.entries(PATHS)) {
    const { tasks, reasons } = trace[kind];
    if (tasks.length === 0) continue;
    const byName = new Map(),
      byReason = new Map();
    let bodies = 0,
      last = trace.head.begin;
    tasks.forEach((task, at) => {
      const start = trace.start[task],
        time = trace.end[task] - start;
      if (Number.isNaN(time)) return;
      const delay = Math.max(start - last, 0);
      byName.set(trace.name[task], (byName.get(trace.name[task]) ?? 0) + time);
      const reason = byReason.get(reasons[at]) ?? { count: 0, delay: 0 };
      byReason.set(reasons[at], { count: reason.count + 1, delay: reason.delay + delay });
      bodies += time;
      last = Math.max(last, trace.end[task]);
    });
    const names = [...byName].sort((one, other) => other[1] - one[1]);
    const bar = element(
      'div',
      { class: 'bar thin' },
      names.slice(0, 12).map(([name, time]) =>
        element('i', {
          'data-colour': colourOfName(name),
          style: { width: `${(100 * time) / Math.max(span, 1)}%` },
          title: nameText(trace, name),
        }),
      ),
    );
    const rows = [...byReason]
      .sort((one, other) => other[1].delay - one[1].delay)
      .map(([reason, { count, delay }]) =>
        element(
          'tr',
          {},
          element('td', {}, REASONS[reason] ?? '?'),
          element('td', {}, formatCount(count)),
          element('td', {}, formatTime(delay)),
          element('td', {}, formatPercent(delay, span)),
        ),
      );
    box.append(
      element(
        'div',
        { class: 'card path' },
        element('h3', {}, title),
        element(
          'p',
          { class: 'figure' },
          formatTime(bodies),
          element(
            'small',
            {},
            ` in ${formatCount(tasks.length)} ${tasks.length === 1 ? 'body' : 'bodies'}, ` +
              `${formatPercent(bodies, span)} of the run`,
          ),
        ),
        bar,
        element(
          'p',
          { class: 'muted' },
          names
            .slice(0, 5)
            .map(([name, time]) => `${nameText(trace, name)} ${formatPercent(time, span)}`)
            .join(' · '),
        ),
        element(
          'table',
          {},
          element(
            'thead',
            {},
            element(
              'tr',
              {},
              ['Started because', 'Bodies', 'Delay before', 'Of the run'].map((text) => element('th', {}, text)),
            ),
          ),
          element('tbody', {}, rows),
        ),
        element('p', { class: 'muted' }, about),
        element(
          'button',
          {
            type: 'button',
            class: 'no-print',
            onclick: () => {
              app.setPath(kind);
              app.showAll();
              find('timeline').scrollIntoView({ block: 'start' });
            },
          },
          'Draw it in the timeline',
        ),
      ),
    );
  }
  find('paths').hidden = box.children.length === 0;
}
