// Selects tasks by number and reads their panels.
const numbers = (side) => {
  const links = all(`.edges.${side} li .link`);
  return links.map((node) => Number(node.textContent.split('#').pop())).sort((one, other) => one - other);
};
found.panels = [];
for (const number of TASKS) {
  await search(`#${number}`);
  await until(() => $('.edges.after'));
  await frame();
  found.panels.push([
    $('#detail h3').textContent,
    $('#detail .place').textContent,
    numbers('before'),
    numbers('after'),
  ]);
  $('#detail').replaceChildren();
}
