// The table by task name.

/** Maximum number of names listed initially. */
const NAMES_LISTED = 200;

const NAME_COLUMNS = [
  { title: 'Task', key: 'name' },
  { title: 'Count', key: 'count', show: formatCount },
  { title: 'Failed', key: 'failed', show: formatCount, isOptional: true },
  { title: 'Not run', key: 'unrun', show: formatCount, isOptional: true },
  { title: 'Total', key: 'total', show: formatTime },
  { title: 'Mean', key: 'mean', show: formatTime },
  { title: 'p50', key: 'p50', show: formatTime },
  { title: 'p99', key: 'p99', show: formatTime },
  { title: 'Max', key: 'max', show: formatTime },
  { title: 'Ready→start p50', key: 'wait_p50', show: formatTime },
  { title: 'Ready→start p99', key: 'wait_p99', show: formatTime },
];

/** Bars of a histogram; its classes widen with the durations. */
function histogram(classes) {
  if (classes.length === 0) return '';
  const width = 132,
    height = 26,
    most = Math.max(...classes.map(([, count]) => count)),
    step = Math.min(width / classes.length, 10);
  return element(
    'svg',
    {
      class: 'histogram',
      width,
      height: height + 1,
      viewBox: `0 0 ${width} ${height + 1}`,
      role: 'img',
      'aria-label': `durations from ${formatTime(classes[0][0])} to ${formatTime(classes.at(-1)[0])}`,
    },
    classes.map(([from, count], at) => {
      const tall = count === 0 ? 0 : Math.max((height * count) / most, 1.5);
      const until = classes[at + 1]?.[0];
      return element(
        'rect',
        { x: at * step, y: height - tall, width: Math.max(step - 1, 0.7), height: tall },
        element(
          'title',
          {},
          `${formatCount(count)} from ${formatTime(from)}${until ? ` to ${formatTime(until)}` : ''}`,
        ),
      );
    }),
    element('line', { x1: 0, x2: classes.length * step, y1: height + 0.5, y2: height + 0.5 }),
  );
}

function fillNames(app) {
  const { names, sites } = app.trace.head,
    table = find('names');
  const columns = NAME_COLUMNS.filter(({ key, isOptional }) => !isOptional || names.some((name) => name[key] > 0));
  const hasKinds = names.some(({ kinds }) => kinds.length > 1);
  const most = Math.max(...names.map(({ total }) => total), 1);
  let order = { key: 'total', isRising: false },
    limit = NAMES_LISTED;
  const row = (at) => {
    const name = names[at];
    return element(
      'tr',
      { 'data-name': at, class: app.search.wanted && !app.search.wanted.has(at) ? 'dimmed' : '' },
      columns.map(({ key, show }) =>
        key === 'name'
          ? element(
              'th',
              { scope: 'row' },
              element(
                'button',
                {
                  type: 'button',
                  class: 'link',
                  title: 'Search for it',
                  onclick: () => app.search.set(`"${name.name}"`),
                },
                element('i', { class: 'swatch', 'data-colour': colourOfName(at) }),
                name.name,
              ),
              element('small', {}, placeText(sites[name.site] ?? ['', '', 0, 0])),
            )
          : element(
              'td',
              key === 'total' ? { class: 'meter', style: { '--part': name.total / most } } : {},
              show(name[key]),
            ),
      ),
      element('td', {}, histogram(name.histogram)),
      hasKinds
        ? element(
            'td',
            { class: 'kinds' },
            name.kinds.map(([kind, count, total]) =>
              element('div', {}, `${kind} ${formatTime(total / count)} × ${formatCount(count)}`),
            ),
          )
        : null,
    );
  };
  const fill = () => {
    const sign = order.isRising ? 1 : -1;
    const compare = (one, other) =>
      order.key === 'name'
        ? names[one].name.localeCompare(names[other].name)
        : names[one][order.key] - names[other][order.key];
    const sorted = names.map((_, at) => at).sort((one, other) => sign * compare(one, other) || one - other);
    const head = element(
      'tr',
      {},
      columns.map(({ title, key }) =>
        element(
          'th',
          { scope: 'col', 'aria-sort': order.key === key ? (order.isRising ? 'ascending' : 'descending') : 'none' },
          element(
            'button',
            {
              type: 'button',
              'data-sort': key,
              onclick: () => {
                order = { key, isRising: order.key === key ? !order.isRising : key === 'name' };
                fill();
                table.querySelector(`[data-sort="${key}"]`).focus();
              },
            },
            title,
          ),
        ),
      ),
      element('th', { scope: 'col' }, 'Durations'),
      hasKinds ? element('th', { scope: 'col' }, 'Mean by kind') : null,
    );
    const none = element('tr', {}, element('td', { colspan: columns.length + 2 }, 'No task was submitted.'));
    table.replaceChildren(
      element('thead', {}, head),
      element('tbody', {}, sorted.length > 0 ? sorted.slice(0, limit).map(row) : none),
    );
    if (sorted.length > limit) {
      table.append(
        element(
          'tfoot',
          {},
          element(
            'tr',
            {},
            element(
              'td',
              { colspan: columns.length + 2 },
              element(
                'button',
                {
                  type: 'button',
                  onclick: () => {
                    limit = Infinity;
                    fill();
                  },
                },
                `Show ${formatCount(sorted.length - limit)} more`,
              ),
            ),
          ),
        ),
      );
    }
    paintSwatches(table);
  };
  fill();
}
