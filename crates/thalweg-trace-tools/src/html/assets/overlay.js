// The canvas above the timeline: the critical path, the selected task with its predecessors and successors, and the
// span under the pointer.

/** Maximum number of arrows on each side of the selected task. */
const ARROWS = 300;

class Overlay {
  constructor(app, canvas) {
    Object.assign(this, { app, canvas });
  }

  draw() {
    const { app } = this,
      { timeline } = app,
      { theme } = scheme;
    // In print, a canvas hides the one below it, so everything is drawn on the lower canvas.
    const context = (this.context = (scheme.isPrinting ? timeline.canvas : this.canvas).getContext('2d'));
    context.setTransform(timeline.ratio, 0, 0, timeline.ratio, 0, 0);
    if (!scheme.isPrinting) context.clearRect(0, 0, timeline.width, timeline.height);
    context.save();
    context.beginPath();
    context.rect(GUTTER, 0, timeline.plot, timeline.height);
    context.clip();
    if (app.path) drawPath(context, app, app.path.tasks, theme);
    if (app.selection >= 0) this.drawSelection(theme);
    if (app.hover) this.drawHover(theme);
    if (app.band) {
      const [left, right] = [timeline.x(app.band[0]), timeline.x(app.band[1])].sort((one, other) => one - other);
      context.fillStyle = theme.accent;
      context.globalAlpha = 0.18;
      context.fillRect(left, AXIS, right - left, timeline.height);
      context.globalAlpha = 1;
      this.tag(formatTime(Math.abs(app.band[1] - app.band[0])), (left + right) / 2, theme);
    }
    context.restore();
  }

  /** A text on the axis. */
  tag(text, x, theme) {
    const {
      context,
      app: { timeline },
    } = this;
    context.font = '600 11px system-ui, sans-serif';
    const width = context.measureText(text).width + 12;
    const left = clamp(x - width / 2, GUTTER, Math.max(timeline.width - width - 8, GUTTER));
    context.fillStyle = theme.accent;
    context.fillRect(left, 3, width, 18);
    context.fillStyle = theme.paper;
    context.textBaseline = 'middle';
    context.fillText(text, left + 6, 12.5);
  }

  drawHover(theme) {
    const { context, app } = this,
      { timeline } = app,
      { lane, node, x } = app.hover;
    context.strokeStyle = theme.strong;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x, AXIS);
    context.lineTo(x, timeline.height);
    context.stroke();
    const step = (app.view.to - app.view.from) / timeline.plot;
    this.tag(formatMoment(timeline.timeAt(x), step, app.view.to), x, theme);
    if (!lane || node < 0) return;
    const { start, end } = lane.track.levels[0];
    context.strokeStyle = theme.ink;
    outline(context, timeline.x(start[node]), timeline.x(end[node]), lane, 1.5);
  }

  drawSelection(theme) {
    const { app, context } = this,
      { selection, edges, trace } = app;
    const own = placeOf(app, selection);
    if (edges) {
      const draw = (list, colour, isBefore) => {
        context.strokeStyle = context.fillStyle = colour;
        for (const { task } of list.slice(0, ARROWS)) {
          const other = placeOf(app, task);
          if (!other || !own) continue;
          outline(context, other.left, other.right, other.lane, 1.5);
          if (isBefore) arrow(context, other.right, other.middle, own.left, own.middle);
          else arrow(context, own.right, own.middle, other.left, other.middle);
        }
      };
      draw(edges.successors, theme.after, false);
      draw(edges.predecessors, theme.before, true);
    }
    if (!own) return;
    // A thin line from ready to start marks the time in which the task could already have run.
    context.strokeStyle = theme.ink;
    context.lineWidth = 2;
    const ready = Math.max(app.timeline.x(trace.ready[selection]), 0),
      below = own.lane.y + own.lane.height + 2;
    if (own.left - ready > 3) {
      context.beginPath();
      context.moveTo(ready, below - 4);
      context.lineTo(ready, below + 1);
      context.moveTo(ready, below);
      context.lineTo(own.left, below);
      context.stroke();
    }
    outline(context, own.left, own.right, own.lane, 2.5);
  }
}

/** Returns the position at which a task is drawn; null if the task did not run. */
function placeOf(app, task) {
  const lane = app.timeline.lanes[app.laneOf[task]];
  if (!lane) return null;
  const end = Number.isNaN(app.trace.end[task]) ? app.trace.head.last : app.trace.end[task];
  const left = app.timeline.x(app.trace.start[task]),
    right = Math.max(app.timeline.x(end), left + 1);
  return { lane, left, right, middle: lane.y + lane.height / 2 };
}

function outline(context, left, right, lane, width) {
  // Clamp the rectangle, because canvases render excessively wide rectangles incorrectly.
  const from = Math.max(left, -50),
    to = Math.min(right, 20000);
  if (to < from) return;
  context.lineWidth = width;
  context.strokeRect(from, lane.y - 0.5, Math.max(to - from, 1.5), lane.height + 1);
}

/** An arrow between two points, curved like a cable; within a lane, it rises above the labels. */
function arrow(context, fromX, fromY, toX, toY) {
  const limit = 40000;
  fromX = clamp(fromX, -limit, limit);
  toX = clamp(toX, -limit, limit);
  const bend = Math.max(Math.min(Math.abs(toX - fromX) / 2, 80), 12);
  context.lineWidth = 1.5;
  context.globalAlpha = 0.9;
  context.beginPath();
  context.moveTo(fromX, fromY);
  const rise = Math.abs(toY - fromY) < 2 ? Math.min(24, 6 + Math.abs(toX - fromX) / 8) : 0;
  context.bezierCurveTo(fromX + bend, fromY - rise, toX - bend, toY - rise, toX - 4, toY);
  context.stroke();
  context.beginPath();
  context.moveTo(toX, toY);
  context.lineTo(toX - 7, toY - 4);
  context.lineTo(toX - 7, toY + 4);
  context.fill();
  context.globalAlpha = 1;
}
