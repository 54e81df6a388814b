// Copies between memories: a matrix of bytes, and the data objects that were copied most. Messages between ranks.

function fillTransfers(app) {
  const { trace } = app,
    { transfers, traffic } = trace.head;
  find('transfers').hidden = transfers.length === 0;
  if (transfers.length === 0) return;
  const spaces = [...new Set(transfers.flatMap(({ from, to }) => [from, to]))].sort((one, other) => one - other);
  const most = Math.max(...transfers.map(({ bytes }) => bytes), 1);
  const cell = (from, to) => {
    const link = transfers.find((each) => each.from === from && each.to === to);
    if (!link) return element('td', { class: 'empty' }, from === to ? '' : '–');
    const rate =
      link.time > link.waited ? `${formatBytes(Math.round((link.bytes / (link.time - link.waited)) * 1e9))}/s` : '';
    return element(
      'td',
      {
        style: { '--part': 0.12 + (0.5 * link.bytes) / most },
        title: `${formatTime(link.time)} in all, of which ${formatTime(link.waited)} waited for the link`,
      },
      element('b', {}, formatBytes(link.bytes)),
      element(
        'small',
        {},
        `${formatCount(link.copies)} ${link.copies === 1 ? 'copy' : 'copies'}${rate ? `, ${rate}` : ''}`,
      ),
      link.evicted > 0 ? element('small', {}, `${formatBytes(link.evicted)} to make room`) : null,
      link.waited > 0 ? element('small', {}, `waited ${formatTime(link.waited)}`) : null,
    );
  };
  find('matrix').append(
    element(
      'thead',
      {},
      element(
        'tr',
        {},
        element('th', {}, 'from ↓ to →'),
        spaces.map((to) => element('th', { scope: 'col' }, spaceName(trace, to))),
      ),
    ),
    element(
      'tbody',
      {},
      spaces.map((from) =>
        element(
          'tr',
          {},
          element('th', { scope: 'row' }, spaceName(trace, from)),
          spaces.map((to) => cell(from, to)),
        ),
      ),
    ),
  );
  find('traffic').append(
    element(
      'thead',
      {},
      element(
        'tr',
        {},
        ['Data object', 'Copies', 'Bytes', 'Came back'].map((title) => element('th', { scope: 'col' }, title)),
      ),
    ),
    element(
      'tbody',
      {},
      traffic.map(({ data, copies, bytes, returns }) =>
        element(
          'tr',
          {},
          element('th', { scope: 'row' }, dataName(trace, data)),
          element('td', {}, formatCount(copies)),
          element('td', {}, formatBytes(bytes)),
          element('td', {}, returns > 0 ? `${formatCount(returns)} ×` : '–'),
        ),
      ),
    ),
  );
}

function fillMessages(app) {
  const { messages } = app.trace.head;
  find('messages').hidden = messages.length === 0;
  const row = (cells, name) =>
    element(
      'tr',
      {},
      cells.map((cell) => element(name, name === 'th' ? { scope: 'col' } : {}, cell)),
    );
  find('links').append(
    element('thead', {}, row(['From', 'To', 'Messages', 'Mean time', 'Hidden by tasks'], 'th')),
    element(
      'tbody',
      {},
      messages.map(({ from, to, messages: number, time, hidden }) =>
        row(
          [
            `rank ${from}`,
            `rank ${to}`,
            formatCount(number),
            formatTime(Math.round(time / number)),
            time > 0 ? `${Math.round((100 * hidden) / time)} %` : '–',
          ],
          'td',
        ),
      ),
    ),
  );
}
