// Stands around the act of a test: it waits for the page, offers what a user can do, and prints what the act found.
(async () => {
  const found = { errors: [] },
    root = document.documentElement;
  addEventListener('error', (event) => found.errors.push(String(event.message)));
  addEventListener('unhandledrejection', (event) => found.errors.push(String(event.reason)));
  addEventListener('securitypolicyviolation', (event) => found.errors.push(event.violatedDirective));
  const $ = (selector) => document.querySelector(selector);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const pause = (time) => new Promise((next) => setTimeout(next, time));
  const frame = () => new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(next)));
  const until = async (test) => {
    for (let tries = 0; tries < 1000 && !test(); tries += 1) await pause(20);
  };
  const press = async (key, target = document.body) => {
    target.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
    await frame();
  };
  /** Dispatches an event at a place of the timeline. */
  const mouse = (type, x, y, more = {}) => {
    const box = $('#surface').getBoundingClientRect();
    const Kind = type === 'wheel' ? WheelEvent : PointerEvent;
    const place = { clientX: box.left + x, clientY: box.top + y, button: 0, pointerId: 1 };
    $('#surface').dispatchEvent(new Kind(type, { ...place, bubbles: true, cancelable: true, ...more }));
  };
  const drag = async (from, to, y, more = {}) => {
    mouse('pointerdown', from, y, more);
    mouse('pointermove', to, y);
    mouse('pointerup', to, y);
    await frame();
  };
  const choose = async (selector, value) => {
    $(selector).value = value;
    $(selector).dispatchEvent(new Event('change'));
    await frame();
  };
  const search = async (text) => {
    $('#search').value = text;
    $('#search').dispatchEvent(new Event('input'));
    await pause(50);
    await frame();
  };
  /** The range of time that is shown, as the page's address says a little later. */
  const range = async () => {
    await pause(400);
    return new URLSearchParams(location.hash.slice(1)).get('t').split(',').map(Number);
  };
  /** How many pixels of a canvas satisfy a test of their red, green and blue. */
  const pixels = (selector, test) => {
    const { width, height } = $(selector);
    const { data } = $(selector).getContext('2d').getImageData(0, 0, width, height);
    let count = 0;
    for (let at = 0; at < data.length; at += 4) if (test(data[at], data[at + 1], data[at + 2])) count += 1;
    return count;
  };
  try {
    await until(() => root.dataset.ready);
    ACT;
  } catch (error) {
    found.errors.push(String(error.stack));
  }
  found.title = document.title;
  const bytes = new TextEncoder().encode(JSON.stringify(found));
  console.log(`FOUND:${btoa(String.fromCharCode(...bytes))}:`);
})();
