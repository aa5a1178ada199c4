// The calculator's page: unpacks what it holds, asks a worker, shows what comes back.
"use strict";

const byId = (id) => document.getElementById(id);
const inputs = [...document.querySelectorAll("#controls [name]")];
const state = { asked: 0, timer: 0, started: performance.now() };

async function unpacked(id) {
  const bytes = Uint8Array.from(atob(byId(id).textContent), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

// Runs in the worker, behind `model.js`: one question at a time, the latest first.
const WORKER = `
let page, node, latest;
onmessage = async ({ data }) => {
  if (data.module) {
    page = data;
    const { instance } = await WebAssembly.instantiate(data.module);
    node = new Node(instance, page.about.grid);
    if (latest) answer(latest);
    return;
  }
  latest = data;
  if (node) answer(data);
};
async function answer(question) {
  try {
    const pair = page.about.pairs[question.pair];
    const numbers = page.numbers.subarray(pair.begins, pair.begins + pair.length);
    const tables = new Tables(page.about.grid, pair, numbers);
    for (const found of predict(tables, node, question.chosen, page.about.grid.draws)) {
      const names = ["throughput_rps", "p50_ms", "p99_ms"];
      postMessage({ id: question.id, done: found.drawn.length, bottleneck: found.bottleneck,
        overloaded: found.overloaded, utilisation: found.utilisation, cpu_us: mean(found.nominal.map((run) => run.result.cpu_us)),
        ...Object.fromEntries(names.map((name) => [name, found.estimate(name)])) });
      await new Promise((resolve) => setTimeout(resolve));
      if (latest !== question) return;
    }
  } catch (error) {
    postMessage({ id: question.id, failed: String(error) });
  }
}`;

async function start() {
  const settings = JSON.parse(byId("start").textContent);
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) settings[name] = value;
  for (const input of inputs) {
    input.value = settings[input.name] ?? "";
    if (input.value === "" && input.tagName === "SELECT") input.selectedIndex = 0;
    input.addEventListener(input.tagName === "SELECT" ? "change" : "input", () => {
      clearTimeout(state.timer);
      state.timer = setTimeout(ask, 80);
    });
  }
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  byId("copy-yaml").addEventListener("click", () => copy(byId("yaml").textContent, "Scenario copied"));
  byId("copy-link").addEventListener("click", () => copy(location.href, "Link copied"));
  byId("save-yaml").addEventListener("click", () => save("calculator.yaml", byId("yaml").textContent));
  const source = new Blob([byId("model").textContent, WORKER], { type: "text/javascript" });
  state.worker = new Worker(URL.createObjectURL(source));
  state.worker.onmessage = ({ data }) => { if (data.id === state.asked) show(data); };
  const [about, planes, module] = await Promise.all(["about", "numbers", "module"].map(unpacked));
  state.about = JSON.parse(new TextDecoder().decode(about));
  const bytes = new Uint8Array(planes), half = bytes.length / 2, numbers = new Int16Array(half);
  for (let i = 0; i < half; i++) numbers[i] = bytes[i] | (bytes[half + i] << 8);
  state.worker.postMessage({ module, about: state.about, numbers });
  ask();
}

function ask() {
  const values = Object.fromEntries(inputs.map((input) => [input.name, input.value.trim()]));
  const key = `${values.host} ${values.engine}`, pair = state.about.pairs[key];
  const threads = byId("io_threads");
  threads.max = pair.threads[pair.threads.length - 1];
  const wrong = inputs.find((input) => !input.checkValidity());
  byId("failure").hidden = !wrong;
  if (wrong) {
    byId("failure").textContent = `${wrong.labels[0].firstChild.textContent.trim()}: ${wrong.validationMessage}`;
    return;
  }
  const rate = values.rate_rps === "" ? null : Number(values.rate_rps);
  const chosen = { threads: Number(values.io_threads), clients: Number(values.clients),
    pipeline: rate === null ? Number(values.pipeline) : 1, get: Number(values.get_percent) / 100,
    value: Number(values.value_bytes), keys: Number(values.keys), rate };
  byId("pipeline").disabled = rate !== null;
  byId("title").textContent = pair.title;
  byId("yaml").textContent = yaml_of(values, chosen);
  history.replaceState(null, "", "#" + new URLSearchParams(values));
  byId("tiles").setAttribute("aria-busy", "true");
  Object.assign(state, { asked: state.asked + 1, pair, chosen });
  if (state.asked > 1) state.started = performance.now();
  state.worker.postMessage({ id: state.asked, pair: key, chosen });
}

function yaml_of({ host, engine }, chosen) {
  const [name, version] = engine.split(" "), get = +chosen.get.toFixed(6), set = +(1 - get).toFixed(6);
  const mix = [["get", get], ["set", set]].filter(([, share]) => share > 0).map((pair) => pair.join(": "));
  return [`host: ${host}`, `engine: ${name}`, `engine_version: "${version}"`, `io_threads: ${chosen.threads}`, "workload:",
    ...(chosen.rate === null ? ["  arrival: closed_loop"] : ["  arrival: open_loop", `  rate_rps: ${chosen.rate}`]),
    `  clients: ${chosen.clients}`, `  pipeline: ${chosen.pipeline}`, `  mix: {${mix.join(", ")}}`,
    `  keys: ${chosen.keys}`, `  value_bytes: ${chosen.value}`].join("\n") + "\n";
}

// --- what is shown ---------------------------------------------------------------------------------

const digits = (value, count = 3) => value === Infinity ? "∞"
  : value.toLocaleString("en", { maximumSignificantDigits: count, minimumSignificantDigits: Math.min(count, 2) });
// One value, or both ends of an interval, in the unit that suits the last.
const inUnit = (values, [size, unit]) => values.map((value) => digits(value / size)).join(" – ") + unit;
const rate = (...values) => inUnit(values, [[1e6, " M/s"], [1e3, " k/s"], [1, "/s"]].find(([size], i) =>
  i === 2 || values[values.length - 1] >= size));
const ms = (...values) => inUnit(values, [1, " ms"]);
const gib = (...values) => inUnit(values, [2 ** 30, " GiB"]);
const usd = (value) => `$${digits(value)}`;
const percent = (share) => `${Math.round(100 * share)}%`;

function memory_of({ memory }, chosen, grid) {
  const at = grid.keys.indexOf(chosen.keys), size = grid.values.indexOf(chosen.value);
  const [first, second] = memory.clients, share = (chosen.clients - first) / (second - first);
  const [low, high] = memory.bytes.map((table) => table[at][size]);
  const [used, used_low, used_high, resident, resident_high] = low.map((bytes, i) => bytes + share * (high[i] - bytes));
  return { used, used_low, used_high, resident, resident_high, needed: memory.of === "used" ? used : resident };
}

function show(answer) {
  const { pair, chosen, about } = state;
  state.answer = answer;
  if (answer.failed) {
    byId("failure").hidden = false;
    byId("failure").textContent = `This is a bug (${answer.failed}).`;
    return;
  }
  const { throughput_rps: served, p99_ms: p99 } = answer, done = answer.done > 0;
  const between = (low, high, words) => done ? `95%: ${words(low, high)}` : "interval follows …";
  const memory = memory_of(pair, chosen, about.grid), fits = memory.needed <= pair.memory.usable_bytes;
  const hour = pair.usd_per_hour, billion = (rps) => hour / 3600 / rps * 1e9;
  tiles([
    ["Throughput", rate(served.value), between(served.low, served.high, rate), answer.overloaded],
    ["p99 latency", p99 ? ms(p99.value) : "grows", p99 ? between(p99.low, p99.high, ms) : "the load exceeds what the node serves", !p99],
    ["Memory", gib(memory.used), `95%: ${gib(memory.used_low, memory.used_high)}; ${fits ? "fits" : "does not fit"}`, !fits],
    ["Cost a month", hour === null ? "no price" : usd(hour * 730), hour === null ? "" : `${usd(billion(served.value))} per billion requests` +
      (done ? `, 95%: ${digits(billion(served.high))} – ${digits(billion(served.low))}` : ""), false],
  ]);
  const busy = answer.utilisation, io = chosen.threads > 1 ? [["I/O threads busy", percent(busy["I/O threads"])]] : [];
  rows([
    ["Median latency", answer.p50_ms ? ms(answer.p50_ms.value) : "grows"],
    ["Limited by", answer.bottleneck === "none" ? "nothing: the load is below capacity"
      : answer.bottleneck === "clients" ? "clients: more of them would get more" : answer.bottleneck],
    ["Main thread busy", percent(busy["main thread"])], ...io,
    ["Load generator busy", percent(busy["load generator"])], ["Network used", percent(busy.network)],
    ["CPU per request", `${digits(answer.cpu_us)} µs, spinning included`],
    ["Resident memory", `${gib(memory.resident)}, up to ${gib(memory.resident_high)}; ${gib(pair.memory.usable_bytes)} usable`],
    ["Price", pair.price_note ?? "unknown"],
  ]);
  byId("tiles").removeAttribute("aria-busy");
  const all = answer.done >= about.grid.draws;
  byId("status").textContent = all ? "All simulated" : done ? `Intervals from ${answer.done} of ${about.grid.draws} draws` : "First run";
  if (!state.first || state.first !== state.asked) {
    state.first = state.asked;
    performance.measure("first answer", { start: state.asked === 1 ? 0 : state.started, end: performance.now() });
  }
  if (all) performance.measure("all", { start: state.asked === 1 ? 0 : state.started, end: performance.now() });
}

function tiles(entries) {
  byId("tiles").replaceChildren(...entries.map(([name, value, below, bad]) => {
    const tile = document.createElement("div");
    tile.append(element("dt", name), element("dd", value));
    tile.lastChild.append(element("small", below));
    tile.classList.toggle("bad", bad);
    return tile;
  }));
}

function rows(entries) {
  byId("rows").tBodies[0].replaceChildren(...entries.map(([name, value]) => {
    const row = document.createElement("tr"), head = element("th", name);
    head.scope = "row";
    row.append(head, element("td", value));
    return row;
  }));
}

function element(name, text) {
  const found = document.createElement(name);
  found.textContent = text;
  return found;
}

async function copy(text, said) {
  try {
    await navigator.clipboard.writeText(text);
    byId("status").textContent = said;
  } catch {
    byId("status").textContent = "This browser does not copy: select the text instead.";
  }
}

function save(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/yaml" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

start().catch((error) => {
  byId("failure").hidden = false;
  byId("failure").textContent = `This browser cannot run the page: ${error}`;
});
