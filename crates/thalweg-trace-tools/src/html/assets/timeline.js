// The timeline's canvas: axis, rows and labels. A second canvas above it (`overlay.js`) has the parts that change
// with the pointer, the selection and the choice of a path.

const GUTTER = 132,
  AXIS = 30;

class Timeline {
  constructor(app, canvas) {
    Object.assign(this, { app, canvas, context: canvas.getContext('2d', { alpha: false }) });
    this.strip = document.createElement('canvas');
    this.textWidths = new Map();
    this.frames = 0;
  }

  /** Takes the size that the page gives. */
  resize() {
    const { app, canvas } = this;
    this.ratio = Math.min(devicePixelRatio || 1, 3);
    this.width = canvas.parentElement.clientWidth;
    this.height = placeRows(app.rows, AXIS);
    this.plot = Math.max(this.width - GUTTER - 8, 50);
    this.columns = Math.round(this.plot * this.ratio);
    this.lanes = app.rows.flatMap((row) => {
      const lanes = row.lanes.map((lane, at) => ({ ...lane, row, isFirst: at === 0 }));
      if (lanes.length > 0 || row.kind === 'space') return lanes;
      return [{ items: [], track: null, row, isFirst: true, y: row.y, height: row.laneHeight }];
    });
    for (const each of [canvas, app.overlay.canvas]) {
      each.width = Math.round(this.width * this.ratio);
      each.height = Math.round(this.height * this.ratio);
      each.style.height = `${this.height}px`;
    }
    // Lanes that can show stacked colours have as many rows of pixels as on the screen, others one.
    let used = 0;
    for (const lane of this.lanes) {
      lane.rows =
        lane.row.kind === 'unit' && lane.track && lane.height >= 6 ? Math.round(lane.height * this.ratio) : 1;
      lane.offset = used * this.columns;
      used += lane.rows;
    }
    this.strip.width = this.columns;
    this.strip.height = Math.max(used, 1);
    this.image = new ImageData(this.strip.width, this.strip.height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.brush = new Brush(this.columns, DIM + 1, 26 * this.ratio);
  }

  x(time) {
    const { from, to } = this.app.view;
    return GUTTER + ((time - from) / (to - from)) * this.plot;
  }

  timeAt(x) {
    const { from, to } = this.app.view;
    return from + ((x - GUTTER) / this.plot) * (to - from);
  }

  draw() {
    const { context, app } = this,
      { theme } = scheme;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.fillStyle = theme.paper;
    context.fillRect(0, 0, this.width, this.height);
    this.drawGutter(theme);
    this.drawLanes(theme);
    for (const row of app.rows) if (row.steps) this.drawArea(row, theme);
    this.drawAxis(theme);
    this.frames += 1;
  }

  drawGutter(theme) {
    const { context, app } = this;
    context.textBaseline = 'middle';
    let free = 0;
    for (const row of app.rows) {
      if (row.heading) {
        context.font = '600 10px system-ui, sans-serif';
        context.fillStyle = theme.muted;
        context.fillText(row.heading.text.toUpperCase(), 10, row.heading.y);
      }
      // Low rows are labelled where there is space.
      const middle = row.y + Math.min(row.height, Math.max(row.laneHeight, 12)) / 2;
      if (middle - 5.5 < free) continue;
      free = middle + 5.5;
      context.font = '12px system-ui, sans-serif';
      context.fillStyle = theme.ink;
      context.fillText(
        this.shorten(row.label, GUTTER - 22 - (row.detail && row.kind !== 'space' ? 40 : 0)),
        10,
        middle,
      );
      if (!row.detail) continue;
      context.fillStyle = theme.muted;
      context.textAlign = 'right';
      context.font = '11px system-ui, sans-serif';
      context.fillText(row.detail, GUTTER - 8, row.kind === 'space' ? middle + 14 : middle);
      context.textAlign = 'left';
    }
  }

  drawLanes(theme) {
    const { context, brush, pixels, columns, lanes, app } = this;
    const origin = app.view.from,
      scale = columns / (app.view.to - app.view.from),
      texts = [];
    for (const lane of lanes) {
      const { track, isFirst, row, offset, rows } = lane,
        hasCauses = app.showsCauses && row.kind === 'unit';
      pixels.fill(theme.lanePixel, offset, offset + columns);
      for (const below of !isFirst ? [] : hasCauses ? row.gaps : row.states) {
        brush.clear();
        below.track.paint(brush, origin, scale);
        brush.blend(pixels, offset, 1, hasCauses ? theme.causePixels : theme.statePixels);
      }
      if (!track) {
        for (let at = 1; at < rows; at += 1) pixels.copyWithin(offset + at * columns, offset, offset + columns);
        continue;
      }
      brush.clear();
      track.paint(brush, origin, scale);
      brush.blend(pixels, offset, rows, row.kind === 'link' ? theme.copyPixels : theme.namePixels);
      if (row.kind !== 'unit') continue;
      texts.push([lane, brush.labels, brush.marks]);
    }
    this.strip.getContext('2d').putImageData(this.image, 0, 0);
    context.imageSmoothingEnabled = false;
    for (const { y, height, offset, rows } of lanes) {
      context.drawImage(this.strip, 0, offset / columns, columns, rows, GUTTER, y, this.plot, height);
    }
    context.save();
    context.beginPath();
    context.rect(GUTTER, 0, this.plot, this.height);
    context.clip();
    for (const [lane, labels, marks] of texts) {
      if (lane.height >= 11) this.drawLabels(lane, labels, theme);
      if (marks.length > 0) this.drawMarks(lane, marks, theme);
    }
    context.restore();
  }

  drawLabels({ items, y, height }, labels, theme) {
    const { context, app, ratio } = this,
      { trace } = app;
    context.font = '11px system-ui, sans-serif';
    for (let at = 0; at < labels.length; at += 4) {
      const left = Math.max(labels[at + 1] / ratio, 0) + 5,
        right = Math.min(labels[at + 2] / ratio, this.plot) - 5;
      if (right - left < 16) continue;
      const task = items[labels[at]],
        name = trace.head.sites[trace.site[task]][0];
      const text = this.shorten(name, right - left);
      if (text !== name && text.length < 4) continue;
      context.fillStyle = theme.nameInk[labels[at + 3]];
      context.fillText(text, GUTTER + left, y + height / 2 + 0.5);
      const used = this.widthOf(text) + 8,
        time = formatTime(trace.end[task] - trace.start[task]);
      if (text !== name || right - left < used + this.widthOf(time)) continue;
      context.globalAlpha = 0.75;
      context.fillText(time, GUTTER + left + used, y + height / 2 + 0.5);
      context.globalAlpha = 1;
    }
  }

  /** Failed bodies: hatched, or, where they are narrow, a pointer from above, so that no hue is needed to see them. */
  drawMarks({ y, height }, marks, theme) {
    const { context, ratio } = this;
    context.strokeStyle = theme.ink;
    for (let at = 0; at < marks.length; at += 2) {
      const left = GUTTER + Math.max(marks[at] / ratio, -20),
        right = GUTTER + Math.min(marks[at + 1] / ratio, this.plot + 20);
      if (right - left < 8) {
        const middle = (left + right) / 2,
          size = clamp(height / 2, 4, 7);
        context.beginPath();
        context.moveTo(middle - size, y - 2);
        context.lineTo(middle + size, y - 2);
        context.lineTo(middle, y + size * 1.6);
        context.closePath();
        context.fillStyle = theme.path;
        context.fill();
        context.strokeStyle = theme.paper;
        context.lineWidth = 1.5;
        context.stroke();
        context.strokeStyle = theme.ink;
        continue;
      }
      context.save();
      context.beginPath();
      context.rect(left, y, Math.max(right - left, 3), height);
      context.clip();
      context.lineWidth = 1.5;
      context.beginPath();
      for (let x = left - height; x < Math.max(right, left + 3); x += 6) {
        context.moveTo(x, y + height);
        context.lineTo(x + height, y);
      }
      context.stroke();
      context.lineWidth = 3;
      context.strokeRect(left, y, Math.max(right - left, 3), height);
      context.restore();
    }
  }

  widthOf(text) {
    const key = this.context.font + text;
    let width = this.textWidths.get(key);
    if (width === undefined) {
      if (this.textWidths.size > 5000) this.textWidths.clear();
      width = this.context.measureText(text).width;
      this.textWidths.set(key, width);
    }
    return width;
  }

  /** The text, or as much of its beginning as fits. */
  shorten(text, width) {
    const whole = this.widthOf(text);
    if (whole <= width) return text;
    const characters = Array.from(text);
    return `${characters.slice(0, Math.max(Math.floor((characters.length * (width - 10)) / whole), 1)).join('')}…`;
  }

  drawArea({ steps, y, height }, theme) {
    const { context, columns, ratio, app } = this;
    const values = steps.sample(app.view.from, (app.view.to - app.view.from) / columns, columns);
    context.fillStyle = theme.lane;
    context.fillRect(GUTTER, y, this.plot, height);
    context.fillStyle = theme.area;
    context.beginPath();
    context.moveTo(GUTTER, y + height);
    const top = (value) => y + height - (steps.peak > 0 ? value / steps.peak : 0) * (height - 3);
    values.forEach((value, at) => {
      context.lineTo(GUTTER + at / ratio, top(value));
      context.lineTo(GUTTER + (at + 1) / ratio, top(value));
    });
    context.lineTo(GUTTER + this.plot, y + height);
    context.fill();
  }

  drawAxis(theme) {
    const { context, app } = this,
      { from, to } = app.view;
    const step = niceStep((to - from) / Math.max(this.plot / 110, 1));
    context.font = '11px system-ui, sans-serif';
    context.fillStyle = theme.muted;
    context.strokeStyle = theme.strong;
    context.lineWidth = 1;
    context.textBaseline = 'middle';
    context.beginPath();
    for (let tick = Math.ceil(from / step); tick * step <= to; tick += 1) {
      const x = Math.round(this.x(tick * step)) + 0.5;
      context.moveTo(x, AXIS - 6);
      context.lineTo(x, AXIS);
      const text = formatMoment(tick * step, step, Math.max(to, step));
      if (x + 4 + this.widthOf(text) < this.width) context.fillText(text, x + 4, AXIS - 10);
    }
    context.moveTo(GUTTER, AXIS - 0.5);
    context.lineTo(GUTTER + this.plot, AXIS - 0.5);
    context.stroke();
  }
}

/** The smallest of 1, 2, 5, 10, … that is not below `step`. */
function niceStep(step) {
  const power = 10 ** Math.floor(Math.log10(Math.max(step, 1)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((nice) => nice >= step * 0.999) ?? 10 * power;
}
