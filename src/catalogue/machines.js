(() => {
const data = JSON.parse(document.getElementById('data').textContent);
const table = document.getElementById('machines'), picked = document.getElementById('picked'), say = document.getElementById('say');
const filter = document.getElementById('filter'), file = document.getElementById('file');
let sorted = null, up = true;
const scales = {ns: [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']], Hz: [[1e9, 'GHz'], [1e6, 'MHz']], 'B/s': [[1e9, 'GB/s'], [1e6, 'MB/s'], [1e3, 'kB/s']]};
const shown = (value, unit) => {
  const steps = scales[unit] || [[1, unit]];
  const [scale, name] = steps.find(([scale]) => value >= scale) || steps[steps.length - 1];
  return `${Number((value / scale).toPrecision(3))} ${name}`;
};
const add = (parent, name, text) => { const node = parent.appendChild(document.createElement(name)); if (text !== undefined) node.textContent = text; return node; };
const chosen = () => data.machines.filter(machine => machine.picked);
function list() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  const of = machine => `${machine.name} ${machine.about}`.toLowerCase();
  const rows = data.machines.filter(machine => words.every(word => of(machine).includes(word)));
  if (sorted !== null) rows.sort((a, b) => {
    const [x, y] = [a, b].map(machine => machine.costs[sorted]?.[0]);
    return x === undefined ? 1 : y === undefined ? -1 : up ? x - y : y - x;
  });
  table.textContent = '';
  const head = add(add(table, 'thead'), 'tr');
  add(head, 'th', 'Machine');
  for (const cost of data.costs) {
    const cell = add(head, 'th'), button = add(cell, 'button', cost.name);
    if (sorted === cost.name) cell.setAttribute('aria-sort', up ? 'ascending' : 'descending');
    button.type = 'button';
    button.onclick = () => { [sorted, up] = sorted === cost.name ? [sorted, !up] : [cost.name, cost.better === 'lower']; list(); };
  }
  const body = add(table, 'tbody');
  for (const machine of rows) {
    const row = add(body, 'tr'), label = add(add(row, 'td'), 'label'), box = add(label, 'input');
    box.type = 'checkbox'; box.checked = !!machine.picked;
    box.onchange = () => { machine.picked = box.checked; if (chosen().length > 3) { machine.picked = box.checked = false; say.textContent = 'Three machines at most.'; } else { say.textContent = ''; } compare(); };
    label.append(` ${machine.name}`); label.title = machine.about;
    for (const cost of data.costs) add(row, 'td', machine.costs[cost.name] ? shown(machine.costs[cost.name][0], cost.unit) : '–');
  }
}
// A machine is better where the ranges of its runs do not overlap.
function winner(cost, machines) {
  const values = machines.map(machine => machine.costs[cost.name]);
  if (values.some(value => !value)) return null;
  const lower = cost.better === 'lower', order = machines.map((_, place) => place).sort((a, b) => lower ? values[a][0] - values[b][0] : values[b][0] - values[a][0]);
  const [first, second] = order, apart = lower ? values[first][2] < values[second][1] : values[first][1] > values[second][2];
  const ratio = lower ? values[second][0] / values[first][0] : values[first][0] / values[second][0];
  return apart && ratio >= 1.02 ? {place: first, ratio} : {place: null, ratio};
}
function compare() {
  const machines = chosen();
  picked.textContent = '';
  if (machines.length < 2) return;
  const head = add(add(picked, 'thead'), 'tr'), body = add(picked, 'tbody'), wins = machines.map(() => []);
  add(head, 'th', 'Cost');
  machines.forEach((machine, place) => add(head, 'th', `${'ABC'[place]}: ${machine.name}`));
  add(head, 'th', 'Better');
  for (const cost of data.costs) {
    const found = winner(cost, machines);
    if (!found) continue;
    const row = add(body, 'tr');
    add(row, 'td', cost.name);
    machines.forEach((machine, place) => { const cell = add(row, 'td', shown(machine.costs[cost.name][0], cost.unit)); if (place === found.place) cell.className = 'good'; });
    add(row, 'td', found.place === null ? '=' : `${'ABC'[found.place]} ${found.ratio.toFixed(found.ratio < 10 ? 2 : 0)}×`);
    if (found.place !== null) wins[found.place].push([cost.name, found.ratio]);
  }
  say.textContent = machines.map((machine, place) => {
    const best = wins[place].sort((a, b) => b[1] - a[1]).slice(0, 4).map(([name, ratio]) => `${name} ${ratio.toFixed(1)}×`);
    return best.length ? `${'ABC'[place]} (${machine.name}) is better at ${best.join(', ')}.` : `${'ABC'[place]} (${machine.name}) is better at nothing here.`;
  }).join(' ');
}
function own(text) {
  const run = JSON.parse(text);
  if (run.format !== 'sysdyno-node/1') throw new Error('it is not the node.json of a run');
  const costs = {};
  for (const cost of data.costs) for (const experiment of run.experiments) for (const metric of experiment.metrics || []) {
    if (metric.name !== cost.metric || costs[cost.name]) continue;
    const figure = metric.figures.find(figure => cost.labels.every(label => (figure.labels || '').split(' ').includes(label)));
    if (figure) costs[cost.name] = [figure.value, ...figure.interval];
  }
  const fact = name => (run.facts[name] || '').split(' (')[0];
  data.machines.unshift({name: `Your run of ${run.run.started.slice(0, 10)}`, about: `${fact('Processor: microarchitecture')}, ${fact('Processor: CPUs')} CPUs`, costs, picked: true});
  list(); compare();
}
const take = files => { for (const one of files) one.text().then(own).catch(error => { say.textContent = `${one.name}: ${error.message}`; }); };
filter.oninput = list;
file.onchange = () => take(file.files);
document.ondragover = event => event.preventDefault();
document.ondrop = event => { event.preventDefault(); take(event.dataTransfer.files); };
list();
})();
