// A brush paints the spans of one lane into pixels. A pixel column with few spans shows the colour that covers most
// of it, blended by its coverage. A column with many spans shows their colours stacked, each as high as its share,
// so a lane that is zoomed out becomes an area chart.

/** A column with at least this many spans is stacked. */
const CROWD = 3;

class Brush {
  /** Creates a brush with `hues` colours. Spans at least `labelWidth` pixels wide are remembered for labels. */
  constructor(width, hues, labelWidth) {
    Object.assign(this, { width, hues, labelWidth });
    this.cover = new Float32Array(width);
    this.crowd = new Uint16Array(width);
    this.amounts = new Float32Array(width * hues);
    this.clear();
  }

  clear() {
    this.cover.fill(0);
    this.crowd.fill(0);
    this.amounts.fill(0);
    this.labels = [];
    this.marks = [];
  }

  /** Paints one span; `left` and `right` are in pixels. */
  span(node, left, right, colour, isMarked) {
    const { width, hues, cover, crowd, amounts } = this,
      wide = right - left;
    if (wide >= this.labelWidth) this.labels.push(node, left, right, colour);
    if (isMarked) this.mark(left, right);
    // Touching neighbours are separated by up to a pixel, unless they are too narrow.
    const from = left > 0 ? left : 0,
      gap = wide > 4 ? 1 : wide > 1 ? wide * 0.15 : 0;
    const to = right - gap < width ? Math.max(right - gap, from) : width,
      first = from | 0,
      last = Math.min(to | 0, width - 1);
    if (first >= width) return;
    if (first === last) {
      const amount = Math.max(to - from, 0.02);
      crowd[first] += 1;
      cover[first] += amount;
      amounts[first * hues + colour] += amount;
      return;
    }
    for (let at = first; at <= last; at += 1) {
      const amount = at === first ? first + 1 - from : at === last ? to - last : 1;
      crowd[at] += 1;
      cover[at] += amount;
      amounts[at * hues + colour] += amount;
    }
  }

  /** Paints a summary of spans that together are at most a pixel wide. */
  summary(left, right, level, node, scale) {
    if (level.mark !== null && level.mark[node] === 1) this.mark(left, left + 1);
    const first = Math.floor(left),
      split = first + 1;
    if (right <= split) {
      this.addSummary(first, level, node, scale);
      return;
    }
    const share = (split - left) / (right - left);
    this.addSummary(first, level, node, scale * share);
    this.addSummary(split, level, node, scale * (1 - share));
  }

  addSummary(at, { busy, amounts, hues }, node, scale) {
    if (at < 0 || at >= this.width) return;
    this.crowd[at] += CROWD;
    this.cover[at] += busy[node] * scale;
    for (let hue = 0; hue < hues; hue += 1) this.amounts[at * this.hues + hue] += amounts[node * hues + hue] * scale;
  }

  mark(left, right) {
    const { marks } = this;
    if (marks.length > 0 && left < marks.at(-1) + 2) marks[marks.length - 1] = Math.max(right, marks.at(-1));
    else marks.push(left, right);
  }

  /** Blends the colours into `rows` rows of pixels from `offset` on, over the pixels of the first row. */
  blend(pixels, offset, rows, palette) {
    const { width, hues, cover, crowd, amounts } = this,
      ground = rows > 1 ? pixels.slice(offset, offset + width) : null;
    for (let at = 0; at < width; at += 1) {
      if (cover[at] <= 0 || (rows > 1 && crowd[at] >= CROWD)) continue;
      let main = 0;
      for (let hue = 1, base = at * hues; hue < hues; hue += 1)
        if (amounts[base + hue] > amounts[base + main]) main = hue;
      pixels[offset + at] =
        cover[at] >= 0.98 ? palette[main] : mixPixels(pixels[offset + at], palette[main], 0.22 + 0.78 * cover[at]);
    }
    if (ground === null) return;
    for (let row = 1; row < rows; row += 1) pixels.copyWithin(offset + row * width, offset, offset + width);
    for (let at = 0; at < width; at += 1)
      if (crowd[at] >= CROWD) this.stack(at, pixels, offset + at, rows, palette, ground[at]);
  }

  /** Stacks the colours of a column in `rows` rows, from the lowest one up; what is not covered becomes `ground`. */
  stack(at, pixels, offset, rows, palette, ground) {
    const { width, hues, amounts } = this;
    let place = offset + rows * width,
      height = 0.5;
    for (let hue = 0; hue < hues; hue += 1) {
      const amount = amounts[at * hues + hue];
      if (amount <= 0) continue;
      height += amount * rows;
      const colour = palette[hue],
        end = height < rows ? offset + (rows - (height | 0)) * width : offset;
      while (place > end) pixels[(place -= width)] = colour;
    }
    while (place > offset) pixels[(place -= width)] = ground;
  }
}

/** Blends two pixels. */
function mixPixels(under, over, part) {
  const share = Math.round(part * 256),
    rest = 256 - share;
  const redBlue = (((under & 0xff00ff) * rest + (over & 0xff00ff) * share) / 256) & 0xff00ff;
  const green = (((under & 0xff00) * rest + (over & 0xff00) * share) / 256) & 0xff00;
  return (0xff000000 | redBlue | green) >>> 0;
}
