// Utilization of all units over the whole run, as a stacked area chart that is also a map of the timeline's range:
// drag its window to move it, or drag its edges or outside the window to choose another range.

class Overview {
  constructor(app, canvas) {
    Object.assign(this, { app, canvas, context: canvas.getContext('2d') });
    this.height = 72;
    let drag = null;
    const time = (event) => this.time(event.clientX - canvas.getBoundingClientRect().left);
    canvas.addEventListener('pointerdown', (event) => {
      canvas.setPointerCapture?.(event.pointerId);
      const at = time(event),
        { from, to } = app.view,
        edge = (6 * this.span) / this.plot;
      if (Math.abs(at - from) < edge) drag = { fixed: to };
      else if (Math.abs(at - to) < edge) drag = { fixed: from };
      else if (at > from && at < to && to - from < 0.98 * this.span) drag = { at, view: { ...app.view } };
      else drag = { fixed: at };
    });
    canvas.addEventListener('pointermove', (event) => {
      const at = time(event);
      if (!drag) {
        const { from, to } = app.view,
          edge = (6 * this.span) / this.plot;
        const isEdge = Math.abs(at - from) < edge || Math.abs(at - to) < edge;
        canvas.style.cursor = isEdge
          ? 'ew-resize'
          : at > from && at < to && to - from < 0.98 * this.span
            ? 'grab'
            : 'crosshair';
        return;
      }
      if (drag.view) app.show(drag.view.from + at - drag.at, drag.view.to + at - drag.at);
      else if (Math.abs(at - drag.fixed) > this.span / this.plot)
        app.show(Math.min(at, drag.fixed), Math.max(at, drag.fixed));
    });
    for (const event of ['pointerup', 'pointercancel']) canvas.addEventListener(event, () => (drag = null));
    canvas.addEventListener('dblclick', () => app.showAll());
  }

  get span() {
    return this.app.trace.head.end - this.app.trace.head.begin || 1;
  }

  time(x) {
    return this.app.trace.head.begin + ((x - GUTTER) / this.plot) * this.span;
  }

  x(time) {
    return GUTTER + ((time - this.app.trace.head.begin) / this.span) * this.plot;
  }

  resize() {
    const { canvas } = this,
      ratio = Math.min(devicePixelRatio || 1, 3);
    this.width = canvas.parentElement.clientWidth;
    this.plot = Math.max(this.width - GUTTER - 8, 50);
    canvas.width = Math.round(this.width * ratio);
    canvas.height = Math.round(this.height * ratio);
    canvas.style.height = `${this.height}px`;
    this.ratio = ratio;
    this.background = null;
  }

  draw() {
    const { context, app, height } = this,
      { theme } = scheme;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    if (this.background?.mode !== theme.mode) {
      const image = document.createElement('canvas');
      [image.width, image.height] = [this.canvas.width, this.canvas.height];
      this.background = { mode: theme.mode, image };
      this.drawUse(image.getContext('2d'), theme);
    }
    context.drawImage(this.background.image, 0, 0, this.width, height);
    const left = clamp(this.x(app.view.from), GUTTER, GUTTER + this.plot),
      right = clamp(this.x(app.view.to), GUTTER, GUTTER + this.plot);
    if (right - left > this.plot - 2) return;
    context.fillStyle = theme.paper;
    context.globalAlpha = 0.62;
    context.fillRect(GUTTER, 0, left - GUTTER, height);
    context.fillRect(right, 0, GUTTER + this.plot - right, height);
    context.globalAlpha = 1;
    context.strokeStyle = theme.accent;
    context.lineWidth = 2;
    context.strokeRect(left - 1, 1, Math.max(right - left + 2, 3), height - 2);
  }

  /** Stacks the time of task names, as a share of the time of all units. */
  drawUse(context, theme) {
    const { app, height, plot } = this,
      { head } = app.trace;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    const columns = Math.round(plot),
      rows = app.rows.filter(({ kind, unit }) => kind === 'unit' && unit >= 0);
    const hues = theme.names.length,
      sums = new Float32Array(columns * hues);
    for (const { lanes } of rows) {
      const brush = new Brush(columns, hues, Infinity);
      lanes.forEach(({ track }) => track.paint(brush, head.begin, columns / this.span));
      for (let at = 0; at < columns; at += 1) {
        // Nested bodies, and bodies on several devices of a unit, count as one use of the unit.
        const share = 1 / rows.length / Math.max(brush.cover[at], 1);
        for (let hue = 0; hue < hues; hue += 1) sums[at * hues + hue] += brush.amounts[at * hues + hue] * share;
      }
    }
    context.fillStyle = theme.paper;
    context.fillRect(0, 0, this.width, height);
    context.fillStyle = theme.lane;
    context.fillRect(GUTTER, 0, plot, height);
    for (let at = 0; at < columns; at += 1) {
      let base = height;
      for (let hue = 0; hue < hues; hue += 1) {
        const tall = sums[at * hues + hue] * height;
        if (tall <= 0) continue;
        context.fillStyle = theme.names[hue];
        context.fillRect(GUTTER + at, base - tall, 1, tall);
        base -= tall;
      }
    }
    context.font = '12px system-ui, sans-serif';
    context.fillStyle = theme.ink;
    context.textBaseline = 'middle';
    context.fillText('All units', 10, height / 2);
    context.font = '11px system-ui, sans-serif';
    context.fillStyle = theme.muted;
    context.textAlign = 'right';
    context.fillText('100 %', GUTTER - 8, 7);
    context.fillText('0', GUTTER - 8, height - 7);
    context.textAlign = 'left';
  }
}
