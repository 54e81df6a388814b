// Points at the body that runs at a time in a row, and clicks on it.
const [from, to] = await range();
const x = 132 + ((TIME - from) / (to - from)) * ($('#surface').clientWidth - 140);
const y = 70 + ROW * 40;
mouse('pointermove', x, y);
found.tip = $('#tip b').textContent;
await drag(x, x, y);
found.selected = [$('#detail h3').textContent, $('#detail .muted').textContent];
await press('.');
await press(']');
found.isOpen = $('#detail').children.length > 0;
await press('Escape');
found.isClosed = $('#detail').children.length === 0;
