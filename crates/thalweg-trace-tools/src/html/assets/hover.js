// Hit testing at the pointer's position, and the tooltip next to the pointer.

/** Hit test: finds the lane at a height, and the node in the lane's track near `x`. */
function hitTest(app, x, y) {
  const { timeline } = app;
  if (x < GUTTER || x > GUTTER + timeline.plot) return null;
  const lane = timeline.lanes.find((each) => y >= each.y - 1 && y < each.y + each.height + 1) ?? null;
  const reach = (3 * (app.view.to - app.view.from)) / timeline.plot;
  return {
    x,
    y,
    lane: lane?.track ? lane : null,
    node: lane?.track ? lane.track.at(timeline.timeAt(x), reach) : -1,
    row: lane?.row ?? app.rows.find((row) => y >= row.y && y < row.y + row.height) ?? null,
  };
}

/** Returns lines of text about the item under the pointer. */
function describeHit(app, { lane, node, row, x }) {
  const { trace, timeline } = app,
    time = timeline.timeAt(x);
  if (row?.steps) return [formatBytes(row.steps.at(time)), `in use of ${row.label}`];
  if (node >= 0 && row.kind === 'unit') {
    const task = lane.items[node],
      wait = trace.start[task] - trace.ready[task];
    return [
      taskName(trace, task),
      `${formatTime(trace.end[task] - trace.start[task])} on ${row.label}`,
      `ready ${formatTime(wait)} before it started`,
      trace.outcome[task] === 2 ? 'failed' : null,
    ].filter(Boolean);
  }
  if (node >= 0) {
    const copy = lane.items[node],
      { bytes, start, end, waited, evicts, data } = trace.copies;
    return [
      `${formatBytes(bytes[copy])}, ${row.label}`,
      data[copy] >= 0 ? dataName(trace, trace.dataNumber[data[copy]]) : '',
      `${formatTime(end[copy] - start[copy])}${
        waited[copy] > 0 ? `, of which ${formatTime(waited[copy])} waited for the link` : ''
      }`,
      evicts[copy] ? 'to make room' : '',
    ].filter(Boolean);
  }
  if (!row) return [];
  const reach = (app.view.to - app.view.from) / timeline.plot,
    lines = [];
  for (const { track, items } of row.gaps ?? []) {
    const gap = track.at(time, reach);
    if (gap >= 0)
      lines.push(
        `${trace.head.activities[trace.gaps.activity[items[gap]]][1]} for ${formatTime(trace.gaps.end[items[gap]] - trace.gaps.start[items[gap]])}`,
      );
  }
  for (const { track, items } of row.states ?? []) {
    const state = track.at(time, reach);
    if (state >= 0) lines.push(`its thread ${STATE_NAMES[trace.states.kind[items[state]]]}`);
  }
  return lines;
}

/** Shows a tooltip for a hit next to the pointer, or hides the tooltip. */
function showTip(app, hit, x, y) {
  const box = find('tip');
  const lines = hit ? describeHit(app, hit) : [];
  box.hidden = lines.length === 0;
  if (lines.length === 0) return;
  box.replaceChildren(...lines.map((line, at) => element(at === 0 ? 'b' : 'div', {}, line)));
  const width = box.offsetWidth,
    height = box.offsetHeight;
  box.style.left = `${clamp(x + 14, 4, innerWidth - width - 4)}px`;
  box.style.top = `${y + 18 + height > innerHeight ? y - height - 10 : y + 18}px`;
}
