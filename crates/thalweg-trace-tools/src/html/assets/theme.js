// Colours in light and dark: eight hues that readers with any common colour blindness tell apart, each in two shades, for
// task names; greys for states; and the hues of the shares of time. A Rust test checks the distances between the hues.

const HUES = {
  light: ['#3753d6', '#e98912', '#2a9575', '#c162c0', '#69b8e8', '#af3b1c', '#ebc83d', '#472e85'],
  dark: ['#5582c0', '#f09734', '#3ab193', '#d292e4', '#97d9fc', '#da5629', '#ebd75a', '#6f46bc'],
};
/** The hue of each activity that time is divided into. */
const SHARES = { computing: 2, runtime: 4, program: 0, dependence: 1, copy: 3, memory: 7, unit: 6, submission: 5 };
const PAPER = {
  light: {
    paper: '#ffffff',
    lane: '#f1f3f6',
    line: '#dfe4ea',
    strong: '#b9c3cf',
    ink: '#16202c',
    muted: '#5b6877',
    other: '#8c97a5',
    dim: '#d8dde4',
    path: '#b0003a',
    states: ['#c3ccd6', '#e2e7ed', '#8794a3', '#cdd5de'],
    area: '#7f93ab',
    accent: '#0b6bcb',
    before: '#b35900',
    after: '#0b6bcb',
  },
  dark: {
    paper: '#151b22',
    lane: '#1b232c',
    line: '#2a343f',
    strong: '#4a5866',
    ink: '#e8edf3',
    muted: '#9aa8b8',
    other: '#8490a0',
    dim: '#313c48',
    path: '#ff5c8a',
    states: ['#46525f', '#27313b', '#7b8997', '#36414d'],
    area: '#6c829c',
    accent: '#6cb3ff',
    before: '#ffb25c',
    after: '#6cb3ff',
  },
};
/** Colours of names: hues, their second shades, the shared colour of further names, and that of names not searched for. */
const OTHER = 16,
  DIM = 17;

function channels(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

function mixHex(from, to, share) {
  const target = channels(to);
  const mixed = channels(from).map((channel, at) => Math.round(channel + (target[at] - channel) * share));
  return `#${mixed.map((channel) => channel.toString(16).padStart(2, '0')).join('')}`;
}

/** A colour as a pixel of an image: bytes red, green, blue, opaque. */
function pixel(hex) {
  const [red, green, blue] = channels(hex);
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** Dark or white, whichever is easier to read on a colour. */
function inkOn(hex) {
  const [red, green, blue] = channels(hex).map((channel) => (channel / 255) ** 2.2);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.28 ? '#101820' : '#ffffff';
}

class Theme {
  constructor(mode) {
    const paper = PAPER[mode],
      hues = HUES[mode];
    const shades = hues.map((hue) => mixHex(hue, mode === 'light' ? '#000000' : '#ffffff', 0.38));
    this.mode = mode;
    this.shares = Object.fromEntries(Object.entries(SHARES).map(([activity, hue]) => [activity, hues[hue]]));
    Object.assign(this, paper);
    this.names = [...hues, ...shades, paper.other, paper.dim];
    this.namePixels = Uint32Array.from(this.names, pixel);
    this.nameInk = this.names.map(inkOn);
    // Causes of gaps are weaker than bodies, so that both can be told apart.
    this.causePixels = Uint32Array.from(Object.values(this.shares), (hue) => pixel(mixHex(hue, paper.lane, 0.45)));
    this.statePixels = Uint32Array.from(paper.states, pixel);
    this.copyPixels = Uint32Array.from([hues[4], hues[5], paper.dim], pixel);
    this.lanePixel = pixel(paper.lane);
  }
}

const themes = { light: new Theme('light'), dark: new Theme('dark') };

/** The choice of light, dark or the system's, kept by the browser if it keeps anything for this file. */
const scheme = {
  choice: 'system',
  listeners: [],
  isPrinting: false,
  get theme() {
    const isDark =
      this.choice === 'dark' || (this.choice === 'system' && matchMedia('(prefers-color-scheme: dark)').matches);
    return isDark && !this.isPrinting ? themes.dark : themes.light;
  },
  set(choice) {
    this.choice = choice;
    try {
      localStorage.setItem('thalweg-scheme', choice);
    } catch {
      /* Some browsers keep nothing for files. */
    }
    this.changed();
  },
  changed() {
    document.documentElement.dataset.scheme = this.theme.mode;
    this.listeners.forEach((listener) => listener());
  },
  start() {
    try {
      this.choice = localStorage.getItem('thalweg-scheme') ?? 'system';
    } catch {
      /* As above. */
    }
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.changed());
    for (const event of ['beforeprint', 'afterprint']) {
      addEventListener(event, () => {
        this.isPrinting = event === 'beforeprint';
        this.changed();
      });
    }
    this.changed();
  },
};

/** The colour of a task name: the eight largest have hues, the next eight their shades, and the others share one. */
const colourOfName = (name) => (name < 0 || name >= OTHER ? OTHER : name);
