// Pointer, wheel and keyboard input on the timeline.

const KEYS = [
  ['+ or w', 'zoom in'],
  ['− or s', 'zoom out'],
  ['← → or a d', 'move in time'],
  ['↑ ↓', 'zoom in, zoom out'],
  [', and .', 'select the previous, the next task of the lane'],
  ['[ and ]', 'select a task of the lane above, below'],
  ['n and N', 'select the next, the previous match of the search'],
  ['f', 'zoom to the selected task'],
  ['0', 'show the whole run'],
  ['p', 'draw the next kind of path'],
  ['/', 'search'],
  ['Esc', 'clear selection and search'],
  ['?', 'show these keys'],
  ['wheel', 'zoom at the pointer'],
  ['drag', 'move in time'],
  ['Shift + drag', 'zoom into a range'],
  ['double click', 'zoom to a task'],
];

function listenToPointer(app, surface) {
  let drag = null;
  const pointers = new Map();
  const position = (event) => {
    const box = surface.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  surface.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    const [x, y] = position(event);
    pointers.set(event.pointerId, x);
    surface.setPointerCapture?.(event.pointerId);
    drag = { x, y, view: { ...app.view }, isMoved: false, isBand: event.shiftKey, time: app.timeline.timeAt(x) };
  });
  surface.addEventListener('pointermove', (event) => {
    const [x, y] = position(event);
    if (drag && pointers.size === 2 && pointers.has(event.pointerId)) {
      const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
      const before = Math.abs(pointers.get(event.pointerId) - other),
        now = Math.abs(x - other);
      if (before > 8 && now > 8) app.zoom(before / now, app.timeline.timeAt((x + other) / 2));
      pointers.set(event.pointerId, x);
      drag.isMoved = true;
    } else if (drag) {
      drag.isMoved ||= Math.abs(x - drag.x) > 3;
      if (!drag.isMoved) return;
      if (drag.isBand) {
        app.band = [drag.time, app.timeline.timeAt(x)];
        app.redrawOverlay();
      } else {
        const shift = ((drag.x - x) / app.timeline.plot) * (drag.view.to - drag.view.from);
        app.show(drag.view.from + shift, drag.view.to + shift);
      }
      showTip(app, null);
    } else {
      app.hover = hitTest(app, x, y);
      showTip(app, app.hover, event.clientX, event.clientY);
      app.redrawOverlay();
    }
  });
  const finish = (event) => {
    pointers.delete(event.pointerId);
    if (!drag || pointers.size > 0) return;
    const { isMoved, isBand, x, y } = drag;
    drag = null;
    if (isBand && app.band) {
      const [from, to] = app.band[0] < app.band[1] ? app.band : [app.band[1], app.band[0]];
      app.band = null;
      app.show(from, to);
    } else if (!isMoved && event.type === 'pointerup') {
      const hit = hitTest(app, x, y);
      if (hit?.row?.kind === 'unit' || !hit) app.select(hit && hit.node >= 0 ? hit.lane.items[hit.node] : -1, false);
    }
  };
  surface.addEventListener('pointerup', finish);
  surface.addEventListener('pointercancel', finish);
  surface.addEventListener('pointerleave', () => {
    app.hover = null;
    showTip(app, null);
    app.redrawOverlay();
  });
  surface.addEventListener('dblclick', () => app.selection >= 0 && app.zoomTo(app.selection));
  surface.addEventListener(
    'wheel',
    (event) => {
      const [x] = position(event);
      // Above the labels, the wheel scrolls the page.
      if (x < GUTTER) return;
      event.preventDefault();
      const unit = event.deltaMode === 1 ? 20 : event.deltaMode === 2 ? 400 : 1;
      const span = app.view.to - app.view.from;
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        const shift = (((event.deltaX || event.deltaY) * unit) / app.timeline.plot) * span;
        app.show(app.view.from + shift, app.view.to + shift);
      } else {
        app.zoom(1.0016 ** clamp(event.deltaY * unit, -400, 400), app.timeline.timeAt(x));
      }
    },
    { passive: false },
  );
}

/** Keys that work regardless of the focus, except while the user types text or sorts a table using the keyboard. */
function listenToKeys(app) {
  const actions = {
    '+': () => app.zoom(0.6),
    '=': () => app.zoom(0.6),
    w: () => app.zoom(0.6),
    '-': () => app.zoom(1 / 0.6),
    s: () => app.zoom(1 / 0.6),
    a: () => app.pan(-0.2),
    d: () => app.pan(0.2),
    f: () => app.selection >= 0 && app.zoomTo(app.selection),
    0: () => app.showAll(),
    n: () => app.search.step(1),
    N: () => app.search.step(-1),
    p: () => app.nextPath(),
    ',': () => app.neighbour(-1),
    '.': () => app.neighbour(1),
    '[': () => app.otherLane(-1),
    ']': () => app.otherLane(1),
    '/': () => find('search').focus(),
    '?': () => find('keys').showModal(),
    Escape: () => {
      app.select(-1, false);
      app.search.set('');
    },
  };
  const onTimeline = {
    ArrowLeft: () => app.pan(-0.1),
    ArrowRight: () => app.pan(0.1),
    ArrowUp: () => app.zoom(0.75),
    ArrowDown: () => app.zoom(1 / 0.75),
    Home: () => app.pan(-Infinity),
    End: () => app.pan(Infinity),
  };
  addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches?.('input, select, dialog, dialog *'))
      return;
    const isTimeline = event.target === find('surface');
    const action = actions[event.key] ?? (isTimeline ? onTimeline[event.key] : undefined);
    if (!action) return;
    event.preventDefault();
    action();
  });
}

function fillKeys() {
  find('keys-list').append(
    ...KEYS.map(([keys, text]) => element('div', {}, element('kbd', {}, keys), element('span', {}, text))),
  );
}
