// Initialization of the page, in order, and wiring of its controls.

async function main() {
  scheme.start();
  if (typeof DecompressionStream === 'undefined')
    throw new Error('this browser is too old to unpack the trace; try one of 2023 or later');
  const trace = await loadTrace();
  app.trace = trace;
  app.rows = makeRows(trace);
  app.overlay = new Overlay(app, find('overlay'));
  app.timeline = new Timeline(app, find('lanes'));
  app.overview = new Overview(app, find('overview'));
  app.detail = new Detail(app, find('detail'));
  app.search = new Search(app, find('search'));
  fillHead(app);
  fillVerdict(app);
  fillTiles(app);
  fillShares(app);
  fillLegend(app);
  fillGaps(app);
  document.body.classList.remove('loading');
  app.resize();
  app.laneOf = lanesOfTasks(app);
  app.showAll();
  app.recall();
  paintSwatches(document);
  app.frame();
  document.documentElement.dataset.firstFrame = String(Math.round(performance.now()));
  // The rest is below the timeline. It is built after the first frame is on the screen, or soon if the page is
  // hidden.
  await new Promise((next) => {
    requestAnimationFrame(() => setTimeout(next));
    setTimeout(next, 300);
  });
  fillFailures(app);
  fillNames(app);
  fillPaths(app);
  fillTransfers(app);
  fillMessages(app);
  fillDecisions(app);
  fillKeys();
  paintSwatches(document);
  wire(app);
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}

/** The lane of each task, as a position in the timeline's lanes. */
function lanesOfTasks({ trace, timeline }) {
  const laneOf = new Int32Array(trace.count).fill(-1);
  timeline.lanes.forEach(({ row, items }, at) => {
    if (row.kind === 'unit') for (let index = 0; index < items.length; index += 1) laneOf[items[index]] = at;
  });
  return laneOf;
}

/** The legends of gaps: states that occur, and causes. */
function fillGaps({ trace }) {
  const kinds = [...new Set(trace.states.kind)].sort();
  find('states-legend').append(
    ...kinds.map((kind) => element('span', {}, element('i', { class: `swatch state-${kind}` }), STATE_NAMES[kind])),
  );
  find('causes-legend').append(
    ...trace.head.activities
      .slice(1)
      .map(([activity, title]) =>
        element('span', {}, element('i', { class: 'swatch cause', 'data-share': activity }), title),
      ),
  );
}

function wire(app) {
  listenToPointer(app, find('surface'));
  listenToKeys(app);
  const press = {
    'zoom-in': () => app.zoom(0.6),
    'zoom-out': () => app.zoom(1 / 0.6),
    'zoom-all': () => app.showAll(),
    help: () => find('keys').showModal(),
  };
  for (const [id, action] of Object.entries(press)) find(id).addEventListener('click', action);
  find('path').addEventListener('change', (event) => app.setPath(event.target.value));
  find('gaps').addEventListener('change', (event) => app.setCauses(event.target.value === 'causes'));
  find('scheme').value = scheme.choice;
  find('scheme').addEventListener('change', (event) => scheme.set(event.target.value));
  scheme.listeners.push(() => {
    paintSwatches(document);
    app.resize();
    app.isDirty = true;
    app.frame();
  });
  new ResizeObserver(() => {
    if (find('surface').clientWidth === app.timeline.width) return;
    // Draw immediately, because a page that is being printed gets no further frame.
    app.resize();
    app.isDirty = true;
    app.frame();
  }).observe(find('surface'));
}

main().catch((error) => {
  document.body.classList.remove('loading');
  const problem = find('problem');
  problem.hidden = false;
  problem.textContent = `The report cannot be shown: ${error.message}.`;
  console.error(error);
});
