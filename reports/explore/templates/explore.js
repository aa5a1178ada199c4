// The page of `forecache explore`: sends what the controls say, shows what comes back.
"use strict";

const WAIT_MS = 50;           // after the last key before a question is asked
const RESIZED_PX = 40;        // a change of width that is worth drawing again
const SIDES = ["a", "b"];

const byId = (id) => document.getElementById(id);
const inputs = [...document.querySelectorAll("#controls [name]")];
const state = { yaml: [], changes: [{}, {}], source: null, timer: 0, width: 0, data: "", asked: 0 };

function start() {
  const address = new URLSearchParams(location.hash.slice(1));
  state.yaml = SIDES.map((side) => address.get(side)).filter((text) => text);
  if (!state.yaml.length) state.yaml = [byId("start").value];
  for (const input of inputs) {
    input.addEventListener(input.type === "checkbox" || input.tagName === "SELECT" ? "change" : "input",
      () => moved(input));
  }
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  byId("compare").addEventListener("click", compare);
  byId("copy-link").addEventListener("click", copyLink);
  byId("save-data").addEventListener("click", () => save("explore.csv", "text/csv", state.data));
  byId("save-yaml").addEventListener("click", () =>
    save("scenario.yaml", "application/yaml", state.yaml[state.yaml.length - 1]));
  addEventListener("resize", () => {
    if (Math.abs(plotWidth() - state.width) > RESIZED_PX) later(true);
  });
  addEventListener("hashchange", () => location.reload());
  ask();
}

function moved(input) {
  const value = input.type === "checkbox" ? input.checked : input.value.trim();
  if (value === "" && input.name !== "rate_rps") return;
  state.changes[Number(input.dataset.side)][input.name] = value;
  state.asked = performance.now();
  later();
}

function later(onlyResized = false) {
  clearTimeout(state.timer);
  state.timer = setTimeout(() => ask(onlyResized), WAIT_MS);
}

function plotWidth() {
  const plot = document.querySelector("#figures .plot");
  const columns = getComputedStyle(byId("figures")).gridTemplateColumns.split(" ");
  return Math.min(700, plot ? plot.clientWidth : parseFloat(columns[0]) || 358);
}

function ask(onlyResized = false) {
  if (state.source) state.source.close();
  state.asked = state.asked || performance.now();
  const asked = { at: state.asked, changes: state.changes.map((each) => ({ ...each })), first: true };
  state.asked = 0;
  state.width = plotWidth();
  const query = new URLSearchParams({ width: Math.round(state.width) });
  state.yaml.forEach((text, number) => query.set(SIDES[number], text));
  query.set("changes", JSON.stringify(asked.changes.slice(0, state.yaml.length)));
  document.body.classList.toggle("comparing", state.yaml.length > 1);
  byId("compare").setAttribute("aria-pressed", String(state.yaml.length > 1));
  if (!onlyResized) {
    for (const part of document.querySelectorAll("#figures figure, #summary")) {
      part.setAttribute("aria-busy", "true");
    }
    say("Estimating …");
  }
  const source = new EventSource("events?" + query);
  state.source = source;
  const on = (name, take) => source.addEventListener(name, (event) => {
    if (source === state.source) take(JSON.parse(event.data));
  });
  on("scenario", (sides) => showScenario(sides, asked));
  on("figure", (figure) => showFigure(figure, asked));
  on("table", showTable);
  on("data", (text) => { state.data = text; byId("save-data").disabled = false; });
  on("progress", ({ done, of }) => {
    if (done === 1 || done === state.yaml.length) mark("simulated", asked);
    say(`Simulating: ${done} of ${of} done`);
  });
  on("failed", ({ reason }) => { source.close(); fail(reason); });
  on("ended", () => { source.close(); mark("refined", asked); say("All simulated"); });
  source.onerror = () => {
    if (source !== state.source) return;
    source.close();
    fail("forecache no longer answers. Start it again, and open the address that it prints.");
  };
}

function mark(name, asked) {
  performance.measure(name, { start: asked.at, end: performance.now() });
}

function say(text) {
  byId("status").textContent = text;
}

function fail(reason) {
  const place = byId("failure");
  place.textContent = reason;
  place.hidden = false;
  say("");
}

function showScenario(sides, asked) {
  byId("failure").hidden = true;
  if (sides.some((side) => !side.estimated)) say("Simulating …");
  state.yaml = sides.map((side) => side.yaml);
  sides.forEach((side, number) => {
    for (const [name, value] of Object.entries(asked.changes[number])) {
      if (state.changes[number][name] === value) delete state.changes[number][name];
    }
    for (const input of inputs) {
      if (Number(input.dataset.side) === number) showValue(input, side.values[input.name], number);
    }
  });
  byId("titles").textContent = sides.map((side, number) =>
    (sides.length > 1 ? SIDES[number].toUpperCase() + ": " : "") + side.title).join(" · ");
  byId("save-yaml").disabled = false;
  const address = new URLSearchParams();
  state.yaml.forEach((text, number) => address.set(SIDES[number], text));
  history.replaceState(null, "", "#" + address);
  for (const figure of document.querySelectorAll("#figures figure[data-name^='stages-']")) {
    if (Number(figure.dataset.name.slice(7)) >= sides.length) figure.remove();
  }
}

function showValue(input, value, number) {
  if (input === document.activeElement || input.name in state.changes[number]) return;
  if (input.type === "checkbox") input.checked = value;
  else {
    if (input.tagName === "SELECT" && ![...input.options].some((option) => option.value === value)) {
      input.add(new Option(value));
    }
    input.value = value ?? "";
    input.placeholder = value === null && input.name !== "rate_rps" ? "as in the file" : "";
  }
}

function showFigure({ name, title, svg }, asked) {
  let figure = document.querySelector(`#figures figure[data-name="${name}"]`);
  if (!figure) figure = newFigure(name);
  figure.querySelector("h3").textContent = title;
  figure.querySelector(".plot").innerHTML = svg;
  figure.removeAttribute("aria-busy");
  if (asked.first) {
    asked.first = false;
    requestAnimationFrame(() => mark("first plot", asked));
  }
}

const ORDER = ["throughput", "latency", "served", "load", "busy", "stages-0", "stages-1"];

function newFigure(name) {
  const figure = document.createElement("figure");
  figure.dataset.name = name;
  figure.innerHTML = '<figcaption><h3></h3><button type="button">SVG</button></figcaption><div class="plot"></div>';
  const button = figure.querySelector("button");
  button.setAttribute("aria-label", `Download ${name} as SVG`);
  button.addEventListener("click", () => save(`${name}.svg`, "image/svg+xml", standAlone(figure)));
  const after = [...document.querySelectorAll("#figures figure")].find(
    (other) => ORDER.indexOf(other.dataset.name) > ORDER.indexOf(name));
  byId("figures").insertBefore(figure, after || null);
  return figure;
}

// The picture by itself: in the colours of paper, in place of the page's variables.
function standAlone(figure) {
  const svg = figure.querySelector("svg").cloneNode(true);
  svg.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  svg.setAttribute("xmlns:xlink", "http://www.w3.org/1999/xlink");
  svg.setAttribute("font-family", "sans-serif");
  return new XMLSerializer().serializeToString(svg).replace(/var\(--[a-z]+,\s*(#[0-9a-f]{6})\)/g, "$1");
}

function showTable({ rows, warnings }) {
  byId("summary").removeAttribute("aria-busy");
  const body = byId("rows").tBodies[0];
  body.replaceChildren(...rows.map(([label, ...cells], number) => {
    const row = document.createElement("tr");
    const head = document.createElement("th");
    head.scope = "row";
    head.textContent = label;
    row.append(head, ...cells.map((text, column) => {
      const cell = document.createElement("td");
      const side = cells.length > 1 && number === 0 && column < 2 ? SIDES[column].toUpperCase() + ", " : "";
      cell.textContent = cells.length > 1 && number === 0 && column === 2 ? "B against A" : side + text;
      return cell;
    }));
    return row;
  }));
  byId("warnings").replaceChildren(...warnings.map((text) => {
    const item = document.createElement("li");
    item.textContent = text;
    return item;
  }));
}

function compare() {
  state.yaml = state.yaml.length > 1 ? [state.yaml[0]] : [state.yaml[0], state.yaml[0]];
  state.changes[1] = {};
  ask();
}

async function copyLink() {
  try {
    await navigator.clipboard.writeText(location.href);
    say("Link copied");
  } catch {
    say("The address of this page is the link.");
  }
}

function save(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

start();
