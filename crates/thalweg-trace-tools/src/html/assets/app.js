// The application state: the view and the selection, which are mirrored in the page's address.

const app = {
  view: { from: 0, to: 1 },
  selection: -1,
  edges: null,
  hover: null,
  band: null,
  path: null,
  pathKind: '',
  showsCauses: false,
  isDirty: false,
  isOverlayDirty: false,

  /** Shows a time range, clamped to the vicinity of the run. */
  show(from, to) {
    const { head } = this.trace,
      whole = Math.max(head.last - head.begin, 1000);
    const span = clamp(to - from, 50, whole * 1.1),
      middle = (from + to) / 2;
    from = clamp(
      middle - span / 2,
      head.begin - whole * 0.05,
      Math.max(head.last + whole * 0.05 - span, head.begin - whole * 0.05),
    );
    this.view = { from, to: from + span };
    this.redraw();
  },
  showAll() {
    const { begin, end } = this.trace.head,
      whole = Math.max(end - begin, 1000);
    this.show(begin - whole * 0.004, begin + whole * 1.004);
  },
  zoom(factor, around = (this.view.from + this.view.to) / 2) {
    const { from, to } = this.view;
    // At either zoom limit, the range stays where it is.
    if (factor < 1 && to - from <= 50.5) return;
    this.show(around - (around - from) * factor, around + (to - around) * factor);
  },
  pan(share) {
    const { from, to } = this.view,
      { begin, end } = this.trace.head;
    const shift = Number.isFinite(share) ? share * (to - from) : share < 0 ? begin - from : end - to;
    this.show(from + shift, to + shift);
  },
  zoomTo(task) {
    const { start, end, ready, submitted } = this.trace;
    if (Number.isNaN(start[task])) return;
    const to = Number.isNaN(end[task]) ? this.trace.head.last : end[task];
    const from = Math.max(ready[task] ?? submitted[task], start[task] - 2 * (to - start[task]));
    const margin = Math.max(to - from, 20) * 1.5;
    this.show(from - margin, to + margin);
  },

  redraw() {
    if (!this.isDirty) requestAnimationFrame(() => this.frame());
    this.isDirty = true;
  },
  redrawOverlay() {
    if (!this.isDirty && !this.isOverlayDirty) requestAnimationFrame(() => this.frame());
    this.isOverlayDirty = true;
  },
  frame() {
    if (this.isDirty) {
      this.timeline.draw();
      this.overview.draw();
      const { from, to } = this.view;
      find('range').textContent = `${formatTime(to - from)} shown`;
      this.remember();
    }
    this.overlay.draw();
    this.isDirty = this.isOverlayDirty = false;
  },

  /** Selects a task, or clears the selection if `task` is negative. If `isJump`, scrolls the task into view. */
  select(task, isJump) {
    const { trace } = this;
    this.selection = task;
    this.edges = null;
    find('timeline').classList.toggle('has-detail', task >= 0);
    this.detail.fill(task, null);
    this.resize();
    if (task < 0) {
      this.redraw();
      return;
    }
    if (isJump && !Number.isNaN(trace.start[task])) {
      const { from, to } = this.view,
        span = to - from,
        time = trace.end[task] - trace.start[task];
      if (time < span / 500) this.zoomTo(task);
      else if (trace.start[task] < from || trace.start[task] > to - span / 20)
        this.show(trace.start[task] - span * 0.4, trace.start[task] + span * 0.6);
    }
    find('said').textContent = `${taskName(trace, task)}, number ${trace.number[task]}, selected`;
    this.redraw();
    trace.dependences().then((all) => {
      if (this.selection !== task) return;
      this.edges = neighboursOf(all, task);
      this.detail.fill(task, this.edges);
      this.redrawOverlay();
    });
  },
  /** Selects the task with the given number; returns whether there is such a task. */
  selectNumber(number) {
    const task = this.trace.number.indexOf(number);
    if (task >= 0) this.select(task, true);
    return task >= 0;
  },
  /** Selects the neighbour of the selected task in its lane. */
  neighbour(direction) {
    const lane =
      this.timeline.lanes[this.laneOf[this.selection]] ?? this.timeline.lanes.find(({ items }) => items.length > 0);
    if (!lane || lane.row.kind !== 'unit') return;
    const at =
      this.selection < 0
        ? upperBound(lane.track.levels[0].start, this.view.from) - 1
        : lane.items.indexOf(this.selection);
    const task = lane.items[clamp(at + direction, 0, lane.items.length - 1)];
    if (task !== undefined) this.select(task, true);
  },
  /** Selects the task that runs at the same time in the next lane above or below. */
  otherLane(direction) {
    if (this.selection < 0) {
      this.neighbour(1);
      return;
    }
    const { lanes } = this.timeline,
      time = this.trace.start[this.selection];
    for (let at = this.laneOf[this.selection] + direction; lanes[at]; at += direction) {
      if (lanes[at].row.kind !== 'unit' || !lanes[at].track) continue;
      const node = lanes[at].track.at(time, this.trace.head.last);
      if (node < 0) continue;
      this.select(lanes[at].items[node], true);
      return;
    }
  },
  setPath(kind) {
    this.pathKind = kind;
    this.path = this.trace[kind] ?? null;
    find('path').value = kind;
    this.redraw();
  },
  nextPath() {
    const kinds = ['', ...Object.keys(PATHS)];
    this.setPath(kinds[(kinds.indexOf(this.pathKind) + 1) % kinds.length]);
  },

  resize() {
    this.timeline.resize();
    this.overview.resize();
  },

  /** Stores the range and the selection in the address, so that a copied link shows the same view. */
  remember() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const { from, to } = this.view,
        parts = [`t=${Math.round(from)},${Math.round(to)}`];
      if (this.selection >= 0) parts.push(`task=${this.trace.number[this.selection]}`);
      if (this.search.text) parts.push(`q=${encodeURIComponent(this.search.text)}`);
      if (this.pathKind) parts.push(`path=${this.pathKind}`);
      if (this.showsCauses) parts.push('gaps=causes');
      try {
        history.replaceState(null, '', `#${parts.join('&')}`);
      } catch {
        /* Some browsers refuse this call for local files, or if it is made too often. */
      }
    }, 300);
  },
  recall() {
    const known = new URLSearchParams(location.hash.slice(1));
    if (['light', 'dark'].includes(known.get('scheme'))) scheme.set(known.get('scheme'));
    if (known.has('q')) this.search.set(known.get('q'));
    if (known.get('gaps') === 'causes') this.setCauses(true);
    if (PATHS[known.get('path')]) this.setPath(known.get('path'));
    if (known.has('task')) this.selectNumber(Number(known.get('task')));
    const [from, to] = (known.get('t') ?? '').split(',').map(Number);
    if (to > from) this.show(from, to);
  },
  setCauses(showsCauses) {
    this.showsCauses = showsCauses;
    find('gaps').value = showsCauses ? 'causes' : 'states';
    find('states-legend').hidden = showsCauses;
    find('causes-legend').hidden = !showsCauses;
    this.redraw();
  },
};
