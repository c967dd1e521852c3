// Lists the processes that send on the left, with a row for each port that they send to, and on the right the processes
// with their ports. Lines run in the space between, so that they cover no text.

const [map, owners, senders, search, order, found, troubles] =
  ["map", "owners", "senders", "search", "order", "found", "troubles"].map(id => document.getElementById(id));
const lines = map.querySelector("svg");
const processes = new Map(content.processes.map(process => [process.pid, process]));
const ports = content.processes.flatMap(owner => owner.ports.map(port => ({ ...port, owner })));
const portOf = new Map(ports.map(port => [port.id, port]));
const edges = content.edges.map(edge => ({ ...edge, port: portOf.get(edge.port), sender: processes.get(edge.sender) }))
  .filter(edge => edge.port && edge.sender);

const counted = (count, one, many = one + "s") => `${count} ${count === 1 ? one : many}`;
const countText = edge => edge.sent + (edge.recently > 0 ? ` (+${edge.recently})` : "");
const isShown = ({ row }) => !row.closest("[hidden]");

// Troubles come first, the worst before others.
const states = ["stuck", "unserved", "stopped", "silent", "flooded", "slow", "unknown", "busy", "served"];
const rank = port => states.indexOf(port.state);
const byName = (a, b) => a.name.localeCompare(b.name, undefined, { numeric: true });
const most = field => (a, b) => (b[field] ?? 0) - (a[field] ?? 0) || byName(a, b);
const orders = {
  trouble: (a, b) => rank(a) - rank(b) || byName(a, b),
  name: byName, waiting: most("waiting"), taken: most("taken"),
};

// Rows

function badge({ state }) {
  const word = state === "silent" ? "no answer" : state;
  return state === "served" ? "" : make("span", "badge " + state, word);
}

function processBox(process) {
  const title = make("h3", "", process.title);
  title.title = process.path;
  return make("div", "process", title);
}

function remedy(port) {
  return port.remedy ? make("p", "quiet", ...marked(`What to do: ${port.remedy}.`)) : "";
}

function portRow(port) {
  const counts = port.waiting > 0 ? [`${port.waiting} waiting`] : [];
  if (Number.isInteger(port.taken)) counts.push(`${port.taken} taken`);
  const sent = edges.filter(edge => edge.port === port).map(edge =>
    make("li", "", [`${edge.sender.title}: ${countText(edge)}`, ...edge.waits].join(", ")));
  const about = sent.length > 0 ? "Senders, with their messages:"
    : port.taken > 0 ? "Its senders have ended." : "Nobody has sent to it.";
  port.handle = make(
    "summary", "handle", make("i", "dot " + port.state), make("span", "name", port.name),
    make("span", "count", counts.join(", ")), badge(port));
  return make(
    "details", "", port.handle, ...port.details.map(text => make("p", "", ...marked(text))),
    port.trouble ? make("p", "", ...marked(port.trouble)) : "", remedy(port), make("p", "quiet", about),
    make("ul", "", ...sent));
}

function edgeRow(edge) {
  const count = make("span", "count", countText(edge));
  if (edge.waits.length > 0) count.append(" ", make("em", "", "waits"));
  const recently = edge.recently > 0 ? `, ${edge.recently} of them just now` : "";
  edge.handle = make("button", "handle", make("span", "name", edge.port.name), count);
  edge.handle.title = [`${counted(edge.sent, "message")} to ${edge.port.name}${recently}`, ...edge.waits].join("; ");
  edge.handle.addEventListener("click", () => open(edge.port));
  edge.line = document.createElementNS("http://www.w3.org/2000/svg", "path");
  edge.line.classList.add(edge.port.state);
  // A thousand times as many messages are a line three times as wide.
  edge.line.style.setProperty("--weight", Math.min(6, Math.floor(Math.log10(edge.sent + 1))));
  lines.append(edge.line);
  return make("div", "", edge.handle);
}

function troubleItem(port) {
  const link = make("a", "", port.name);
  link.href = "#";
  link.addEventListener("click", event => { event.preventDefault(); open(port); });
  const text = [make("p", "", ...marked(port.trouble ?? "")), remedy(port)];
  return make("li", "", badge(port), make("div", "", link, make("span", "quiet", ` of ${port.owner.title}`), ...text));
}

// Lines

function choose(item) {
  for (const edge of edges) {
    const isOn = edge === item || edge.port === item;
    for (const element of [edge.row, edge.line]) element.classList.toggle("on", isOn);
  }
  for (const port of ports) port.row.classList.toggle("on", port === item || port === item?.port);
  lines.classList.toggle("chosen", lines.querySelector(".on:not([hidden])") !== null);
}

function draw() {
  const box = map.getBoundingClientRect();
  lines.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
  for (const edge of edges) {
    const [from, to, first, last] = [edge.sender.sends, edge.port.owner.owns, edge.handle, edge.port.handle]
      .map(element => element.getBoundingClientRect());
    const [x1, x2] = [from.right - box.left, to.left - box.left], middle = (x1 + x2) / 2;
    const [y1, y2] = [first, last].map(row => (row.top + row.bottom) / 2 - box.top);
    edge.line.setAttribute("d", `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`);
    edge.line.toggleAttribute("hidden", !isShown(edge) || !isShown(edge.port));
  }
}

// A process stands where its first port does, and a sender about where its ports are, so that few lines cross.
function arrange() {
  const sorted = [...ports].sort(orders[order.value]);
  for (const { owner } of [...sorted].reverse()) owners.querySelector("h2").after(owner.owns);
  for (const port of sorted) port.owner.owns.append(port.row);
  const rows = [...owners.querySelectorAll("details")];
  for (const port of ports) port.place = rows.indexOf(port.row);
  for (const edge of [...edges].sort((a, b) => a.port.place - b.port.place)) edge.sender.sends.append(edge.row);
  const middle = sender => {
    const places = edges.filter(edge => edge.sender === sender).map(edge => edge.port.place);
    return places.reduce((a, b) => a + b, 0) / places.length;
  };
  const sending = [...new Set(edges.map(edge => edge.sender))].map(sender => [middle(sender), sender.sends]);
  senders.append(...sending.sort((a, b) => a[0] - b[0]).map(pair => pair[1]));
  draw();
}

// A port that matches shows all its lines. A sender that matches shows its own lines, with the ports at their ends.
function filter() {
  const words = search.value.toLowerCase().split(/\s+/);
  const matches = (...texts) => words.every(word => texts.join(" ").toLowerCase().includes(word));
  const kept = new Set(ports.filter(port => matches(port.name, port.state, port.owner.title)));
  const left = new Set(edges.filter(edge => kept.has(edge.port) || matches(edge.sender.title)));
  for (const edge of left) kept.add(edge.port);
  for (const edge of edges) edge.row.hidden = !left.has(edge);
  for (const port of ports) port.row.hidden = !kept.has(port);
  for (const box of map.querySelectorAll(".process")) box.hidden = !box.querySelector(":scope > :not(h3, p, [hidden])");
  found.textContent = search.value.trim() ? `${kept.size} of ${ports.length} ports` : "";
  draw();
}

function showAll() {
  search.value = "";
  filter();
}

function open(port) {
  if (!isShown(port)) showAll();
  port.row.open = true;
  port.handle.focus();
  port.row.scrollIntoView({ block: "nearest" });
}

function go(from, step) {
  const side = from.closest?.("#senders") ?? owners;
  const handles = [...side.querySelectorAll(".handle")].filter(handle => !handle.closest("[hidden]"));
  const at = handles.indexOf(from), next = at < 0 && step < 0 ? handles.length - 1 : at + step;
  handles[Math.min(handles.length - 1, Math.max(0, next))]?.focus();
}

function press(event) {
  const { key, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (key === "Escape") return showAll();
  if (target === order || key === "/" && target === search) return;
  const actions = { "/": () => search.focus(), ArrowDown: () => go(target, 1), ArrowUp: () => go(target, -1) };
  if (!actions[key]) return;
  event.preventDefault();
  actions[key]();
}

for (const process of processes.values()) {
  [process.owns, process.sends] = [processBox(process), processBox(process)];
  process.owns.append(...process.pools.map(text => make("p", "quiet", text)));
}
for (const port of ports) port.row = portRow(port);
for (const edge of edges) edge.row = edgeRow(edge);
for (const item of [...ports, ...edges]) {
  for (const type of ["pointerenter", "focusin"]) item.row.addEventListener(type, () => choose(item));
  for (const type of ["pointerleave", "focusout"]) item.row.addEventListener(type, () => choose(null));
}

const example = edges.find(edge => edge.recently > 0);
const counts = [[processes.size, "process", "processes"], [ports.length, "named port"], [edges.length, "connection"]];
fill(document, {
  made, host, counts: counts.map(count => counted(...count)).join(", ") + ".",
  example: example && countText(example),
  meaning: !example ? "The numbers are messages since the sender connected."
    : ` means: ${counted(example.sent, "message")} since the sender connected, `
      + `${example.recently} of them while this map was made.`,
});
const troubled = ports.filter(port => rank(port) < states.indexOf("busy")).sort(orders.trouble);
troubles.querySelector("ul").append(...troubled.map(troubleItem));
troubles.hidden = troubled.length === 0;
document.querySelector("main").hidden = ports.length === 0;
document.getElementById("nobody").hidden = ports.length > 0;
search.addEventListener("input", filter);
order.addEventListener("change", arrange);
document.addEventListener("keydown", press);
new ResizeObserver(draw).observe(map);
arrange();
