// A lane of the timeline: spans of time sorted by their beginnings, with a pyramid of summaries, so that a million spans
// are painted in the time that the pixels take.
//
// Painting (`brush.js`) goes down the pyramid only as far as a summary is wider than a pixel.

const FAN = 8;

class Track {
  /**
   * `colours` are below `hues`; summaries know the time of each. `marks` are 1 where a span is to be marked, or null.
   */
  constructor(starts, ends, colours, hues, marks) {
    this.levels = [{ start: starts, end: ends, colour: colours, mark: marks, busy: null, amounts: null, hues }];
    this.summarize();
  }

  /** Builds the summaries anew, after colours have changed. */
  summarize() {
    this.levels.length = 1;
    for (let below = this.levels[0]; below.start.length > FAN; below = this.levels.at(-1)) {
      const count = Math.ceil(below.start.length / FAN);
      const level = {
        start: new Float64Array(count),
        end: new Float64Array(count),
        busy: new Float64Array(count),
        mark: below.mark ? new Uint8Array(count) : null,
        hues: below.hues,
        amounts: new Float32Array(count * below.hues),
      };
      summarizeLevel(level, below);
      this.levels.push(level);
    }
  }

  get count() {
    return this.levels[0].start.length;
  }

  /** Paints the spans into `brush`. `origin` is the time of its first pixel, and `scale` is pixels per nanosecond. */
  paint(brush, origin, scale) {
    this.visit(this.levels.length - 1, 0, this.levels.at(-1).start.length, brush, origin, scale);
  }

  visit(depth, first, last, brush, origin, scale) {
    const level = this.levels[depth],
      { start, end, colour, mark } = level;
    for (let node = first; node < last; node += 1) {
      const left = (start[node] - origin) * scale;
      if (left >= brush.width) return;
      const right = (end[node] - origin) * scale;
      if (right < 0) continue;
      if (depth === 0) {
        brush.span(node, left, right, colour[node], mark !== null && mark[node] === 1);
      } else if (right - left <= 1) {
        brush.summary(left, right, level, node, scale);
      } else {
        const { length } = this.levels[depth - 1].start;
        this.visit(depth - 1, node * FAN, Math.min(node * FAN + FAN, length), brush, origin, scale);
      }
    }
  }

  /** The span at a time, or the nearest within `reach`; −1 if there is none. */
  at(time, reach) {
    let best = -1,
      distance = Infinity;
    const look = (depth, first, last) => {
      const { start, end } = this.levels[depth];
      for (let node = first; node < last && start[node] <= time + reach; node += 1) {
        if (end[node] < time - reach) continue;
        if (depth > 0) {
          look(depth - 1, node * FAN, Math.min(node * FAN + FAN, this.levels[depth - 1].start.length));
          continue;
        }
        const away = Math.max(start[node] - time, time - end[node], 0);
        if (away <= distance) [best, distance] = [node, away];
      }
    };
    look(this.levels.length - 1, 0, this.levels.at(-1).start.length);
    return best;
  }
}

/** Fills a level: each of its nodes summarizes up to `FAN` nodes of the level below. */
function summarizeLevel(level, below) {
  const { hues } = level,
    { start, end, colour, mark, busy, amounts } = below,
    count = start.length;
  for (let node = 0, first = 0; first < count; node += 1, first += FAN) {
    const last = Math.min(first + FAN, count);
    let latest = -Infinity,
      total = 0,
      isMarked = 0;
    for (let child = first; child < last; child += 1) {
      const time = busy === null ? end[child] - start[child] : busy[child];
      if (end[child] > latest) latest = end[child];
      total += time;
      if (mark !== null) isMarked |= mark[child];
      if (amounts === null) level.amounts[node * hues + colour[child]] += time;
      else for (let hue = 0; hue < hues; hue += 1) level.amounts[node * hues + hue] += amounts[child * hues + hue];
    }
    level.start[node] = start[first];
    level.end[node] = latest;
    level.busy[node] = total;
    if (mark !== null) level.mark[node] = isMarked;
  }
}
