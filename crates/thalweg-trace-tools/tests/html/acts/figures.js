// The figures at the head, and when the first frame was drawn.
found.tiles = $('#tiles').textContent;
found.verdict = $('#verdict-text').textContent;
found.frame = Number(root.dataset.firstFrame);
