// What the page of a trace with everything shows.
found.problem = $('#problem').textContent;
found.names = all('#names tbody .link').map((node) => node.textContent);
await search('#17');
await until(() => $('.accesses'));
found.accesses = all('.accesses li').map((node) => node.textContent);
found.images = all('img').length;
found.failures = all('#failures li').length;
found.charts = all('#decisions svg').map((chart) => chart.querySelectorAll('line, text, path').length);
found.verdict = $('#verdict-text').textContent + $('#remedy').textContent;
const width = (node) => node.getBoundingClientRect().width;
found.share = all('#shares > .bar i').reduce((sum, node) => sum + width(node), 0) / width($('#shares > .bar'));
