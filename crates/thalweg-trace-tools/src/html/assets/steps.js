// A quantity that changes in steps, such as the bytes in use of a memory, drawn as an area. A pyramid of maxima
// makes the cost of drawing proportional to the number of pixels, and keeps peaks visible at any scale.

class Steps {
  /** `times` are sorted; `values[i]` holds from `times[i]` until the next time. */
  constructor(times, values) {
    this.times = times;
    this.levels = [values];
    for (let below = values; below.length > FAN; below = this.levels.at(-1)) {
      const level = new Float64Array(Math.ceil(below.length / FAN));
      for (let at = 0; at < below.length; at += 1) {
        const node = Math.floor(at / FAN);
        level[node] = Math.max(level[node], below[at]);
      }
      this.levels.push(level);
    }
    this.peak = this.levels.at(-1).reduce((peak, value) => Math.max(peak, value), 0);
  }

  /** The value at a time; zero before the first. */
  at(time) {
    const position = upperBound(this.times, time) - 1;
    return position < 0 ? 0 : this.levels[0][position];
  }

  /** The largest value at positions `first .. last`. */
  maximum(first, last) {
    let largest = 0;
    for (let depth = 0; first < last; depth += 1) {
      const values = this.levels[depth];
      if (depth === this.levels.length - 1 || last - first < 2 * FAN) {
        for (let at = first; at < last; at += 1) largest = Math.max(largest, values[at]);
        break;
      }
      for (; first % FAN !== 0; first += 1) largest = Math.max(largest, values[first]);
      for (; last % FAN !== 0; last -= 1) largest = Math.max(largest, values[last - 1]);
      first /= FAN;
      last /= FAN;
    }
    return largest;
  }

  /** The largest value in each of `width` pixels from `origin` on, each `step` nanoseconds wide. */
  sample(origin, step, width) {
    const out = new Float64Array(width);
    let first = upperBound(this.times, origin) - 1;
    for (let at = 0; at < width; at += 1) {
      const until = origin + (at + 1) * step;
      let last = first + 1;
      if (last < this.times.length && this.times[last] < until) last = upperBound(this.times, until);
      out[at] = this.maximum(Math.max(first, 0), last);
      first = last - 1;
    }
    return out;
  }
}
