// The rows of the timeline: their contents, their positions, and the colours of their spans.

const STATE_NAMES = ['searches for a task', 'sleeps', 'waits to submit', 'waits for tasks'];
const GROUPS = { unit: 'Units', thread: 'Threads of the program', link: 'Copies', space: 'Memory in use' };

/** A lane of spans: `items` are positions in the table that `start` and `end` belong to. */
function makeLane(items, start, end, colourOf, hues, isMarked = null) {
  const { length } = items,
    starts = new Float64Array(length),
    ends = new Float64Array(length),
    colours = new Uint8Array(length);
  const marks = isMarked ? new Uint8Array(length) : null;
  for (let at = 0; at < length; at += 1) {
    const item = items[at];
    starts[at] = start[item];
    ends[at] = end[item];
    colours[at] = colourOf(item);
    if (marks !== null) marks[at] = isMarked(item);
  }
  return { items, track: new Track(starts, ends, colours, hues, marks), y: 0, height: 0 };
}

const spaceName = (trace, space) => trace.head.spaces[space] ?? `space ${space}`;

function unitName(trace, unit) {
  if (unit === null || unit < 0) return 'no unit';
  return trace.head.unit_names[unit] ?? `unit ${unit}`;
}

/** How much of the run a unit computed. */
function busyText({ units_use: units, begin, end }, unit) {
  const use = units[unit ?? -1];
  return use && end > begin ? `${Math.round((100 * use[1][0]) / (end - begin))} %` : '';
}

/** Returns the rows of a trace from top to bottom, not yet positioned. */
function makeRows(trace) {
  const { head } = trace,
    rows = [];
  // A body whose end is unknown is drawn to the end of the trace.
  const bodyEnd = trace.end.map((end) => (Number.isNaN(end) ? head.last : end));
  const states = new Map();
  head.rows.states.forEach((row, at) => {
    const { lanes } = trace.stateRows[at];
    const made = lanes.map((items) =>
      makeLane(items, trace.states.start, trace.states.end, (item) => trace.states.kind[item], STATE_NAMES.length),
    );
    states.set(row.unit === undefined ? `thread ${row.thread}` : `unit ${row.unit}`, made);
  });
  let firstGap = 0;
  head.rows.tasks.forEach((row, at) => {
    const gapCount = row.unit === null ? 0 : (trace.gaps.rows[row.unit] ?? 0);
    const gaps = Int32Array.from({ length: gapCount }, (_, gap) => firstGap + gap);
    firstGap += gapCount;
    const lanes = trace.rows[at].lanes.map((items) =>
      makeLane(
        items,
        trace.start,
        bodyEnd,
        (task) => colourOfName(trace.name[task]),
        DIM + 1,
        (task) => (trace.outcome[task] === 2 ? 1 : 0),
      ),
    );
    rows.push({
      kind: 'unit',
      unit: row.unit ?? -1,
      label: unitName(trace, row.unit) + (row.width > 1 ? ` × ${row.width}` : ''),
      detail: busyText(head, row.unit),
      lanes,
      states: states.get(`unit ${row.unit}`) ?? [],
      gaps: [
        makeLane(gaps, trace.gaps.start, trace.gaps.end, (gap) => trace.gaps.activity[gap], head.activities.length),
      ],
    });
  });
  head.rows.states.forEach((row) => {
    if (row.thread === undefined) return;
    rows.push({
      kind: 'thread',
      label: head.threads[row.thread] || `thread ${row.thread}`,
      detail: '',
      lanes: [],
      states: states.get(`thread ${row.thread}`),
    });
  });
  head.rows.copies.forEach((row, at) => {
    const begin = trace.copies.start.map((start, copy) =>
      Math.min(start + trace.copies.waited[copy], trace.copies.end[copy]),
    );
    const lanes = trace.copyRows[at].lanes.map((items) =>
      makeLane(items, begin, trace.copies.end, (copy) => (trace.copies.evicts[copy] ? 1 : 0), 2),
    );
    rows.push({
      kind: 'link',
      label: `${spaceName(trace, row.from)} → ${spaceName(trace, row.to)}`,
      detail: '',
      lanes,
      states: [],
    });
  });
  memorySteps(trace).forEach((steps, space) => {
    const label = spaceName(trace, space);
    rows.push({ kind: 'space', label, detail: `≤ ${formatBytes(steps.peak)}`, lanes: [], states: [], steps });
  });
  return rows;
}

/** The bytes in use over time, for each space that has such records, keyed by space number. */
function memorySteps(trace) {
  const { at, space, bytes } = trace.memory,
    positions = new Map();
  space.forEach((number, position) => {
    if (!positions.has(number)) positions.set(number, []);
    positions.get(number).push(position);
  });
  const steps = [...positions]
    .sort(([left], [right]) => left - right)
    .map(([number, list]) => [
      number,
      new Steps(
        Float64Array.from(list, (position) => at[position]),
        Float64Array.from(list, (position) => bytes[position]),
      ),
    ]);
  return new Map(steps);
}

/** Positions rows below each other, with lower rows if there are many units. Returns the total height. */
function placeRows(rows, top) {
  const unitLanes = rows.reduce((sum, row) => sum + (row.kind === 'unit' ? Math.max(row.lanes.length, 1) : 0), 0);
  const unitHeight = clamp(Math.floor(560 / Math.max(unitLanes, 1)), 4, 36);
  let y = top,
    group = null;
  for (const row of rows) {
    if (row.kind !== group) {
      y += group === null ? 4 : 10;
      row.heading = { text: GROUPS[row.kind], y: y + 10 };
      y += 22;
      group = row.kind;
    }
    row.y = y;
    const count = Math.max(row.lanes.length, row.kind === 'unit' ? 1 : 0);
    const lane = { unit: unitHeight, link: clamp(Math.floor(48 / Math.max(count, 1)), 3, 12), thread: 12, space: 40 }[
      row.kind
    ];
    const gap = lane > 8 ? 1 : 0;
    row.lanes.forEach((entry, at) => {
      entry.y = y + at * (lane + gap);
      entry.height = lane;
    });
    row.laneHeight = lane;
    row.height = Math.max(count, 1) * (lane + gap) - gap;
    y += row.height + (lane > 10 ? 4 : lane > 6 ? 2 : 1);
  }
  return y + 6;
}

/** Gives spans of tasks their colours; names that are not in `wanted` are dimmed, unless it is null. */
function colourRows(trace, rows, wanted) {
  for (const { kind, lanes } of rows) {
    if (kind !== 'unit') continue;
    for (const { items, track } of lanes) {
      const { colour } = track.levels[0];
      for (let at = 0; at < items.length; at += 1) {
        const name = trace.name[items[at]];
        colour[at] = wanted === null || wanted.has(name) ? colourOfName(name) : DIM;
      }
      track.summarize();
    }
  }
}
