// What `models/prediction` does, over tables of step times and the node compiled to WebAssembly: how
// long to simulate, runs at nominal and at drawn numbers, intervals. Every function has the name of
// the Python function that it follows; `verification/calculator.py` compares their answers.
"use strict";

const PS_PER_S = 1e12, PS_PER_MS = 1e9;
const CONTROL_SPEEDUP = 25, IGNITE_PERIOD_PS = 50e9, GROW_PERIOD_PS = 10e9, SHRINK_AFTER_PS = 1000e9,
  SAMPLES_PER_DECISION = 16;
const REPLICATIONS = 4, REQUESTS = 20000, DRAW_REQUESTS = 10000;
const PILOT_REQUESTS = 3000, PILOT_PS = 10e9, MOST_PILOT_EVENTS = 30e6, OPEN_PILOT_REQUESTS = 10000;
const MOST_REQUESTS = 4e6, LONGEST = 8, NEAR = 2, PARTS = 8, FEWEST_PARTS = 4;
const SETTLED_T = 2, DRAINS_T = -3, OVERLOADED_T = 3, LEAST_ERROR = 0.001, SATURATED = 0.95;
const Z95 = 1.959963984540054;
const STUDENT_T = { 3: 3.182446305283708, 19: 2.093024054408309 }; // 95%, by degrees of freedom
const N_BUCKETS = 63 * 128 + 1;

const sum = (values) => values.reduce((total, each) => total + each, 0);
const mean = (values) => sum(values) / values.length;
const deviation = (values) => {
  const middle = mean(values);
  return Math.sqrt(sum(values.map((each) => (each - middle) ** 2)) / (values.length - 1));
};

// --- step times ------------------------------------------------------------------------------------

// Which point of an axis lies below a value, and how far it is to the next; outside it is the end.
function place(axis, value, scale = Math.log) {
  let below = 0;
  while (below < axis.length - 2 && axis[below + 1] <= value) below++;
  if (axis.length === 1) return [0, 0];
  const share = (scale(value) - scale(axis[below])) / (scale(axis[below + 1]) - scale(axis[below]));
  return [below, Math.min(1, Math.max(0, share))];
}

class Tables {
  constructor(grid, about, numbers) {
    Object.assign(this, { grid, about, numbers });
    this.at = Object.fromEntries(Object.entries(about.tables).map(([name, table]) => {
      const column = new Map(table.fields.map((field, index) => [field, index]));
      return [name, { ...table, column, width: table.fields.length }];
    }));
  }

  // The logarithm of a field, at a point of a table.
  log(name, point, field) {
    const table = this.at[name], column = table.column.get(field);
    return column === undefined ? table.constant[field]
      : this.numbers[table.begins + point * table.width + column];
  }

  // Linear between points: `ends` are pairs of a point and its weight.
  between(name, ends, field, steps) {
    const logs = ends.map(([point]) => this.log(name, point, field));
    if (logs.some((log) => log === this.grid.nothing)) {
      return sum(ends.map(([, weight], i) =>
        logs[i] === this.grid.nothing ? 0 : weight * 2 ** (logs[i] / steps)));
    }
    return 2 ** (sum(ends.map(([, weight], i) => weight * logs[i])) / steps);
  }

  // All fields of a choice, at the nominal numbers or at those of a draw.
  fields(chosen, draw = null) {
    const { grid, about } = this, values = grid.values;
    const value = values.indexOf(chosen.value), keys = grid.keys.indexOf(chosen.keys);
    const [thread, more] = place(about.threads, chosen.threads);
    const base = [[thread, 1 - more], [thread + 1, more]].filter(([, weight]) => weight > 0)
      .map(([t, weight]) => [(t * grid.keys.length + keys) * values.length + value, weight]);
    const middle = chosen.threads > 1 && about.middle.length > 1 ? 1 : 0;
    const at = middle * values.length + value;
    const [client, moreClients] = place(grid.clients, chosen.clients);
    const [pipeline, deeper] = place(grid.pipelines, chosen.pipeline);
    const loads = [];
    for (const [c, ofClients] of [[client, 1 - moreClients], [client + 1, moreClients]]) {
      for (const [p, ofPipelines] of [[pipeline, 1 - deeper], [pipeline + 1, deeper]]) {
        if (ofClients * ofPipelines > 0) {
          loads.push([(at * grid.clients.length + c) * grid.pipelines.length + p, ofClients * ofPipelines]);
        }
      }
    }
    const [get, moreGets] = place(grid.gets, chosen.get, (share) => share);
    const shares = [[at * grid.gets.length + get, 1 - moreGets], [at * grid.gets.length + get + 1, moreGets]]
      .filter(([, weight]) => weight > 0);
    const drawn = [];
    if (draw !== null) {
      const [v, larger] = place(grid.drawn_values, chosen.value);
      const ends = about.ends.length, sizes = grid.drawn_values.length;
      const [t, farther] = chosen.threads === 1 || ends === 1 ? [0, 0] : [1, 0];
      for (const [size, weight] of [[v, 1 - larger], [v + 1, larger]]) {
        if (weight > 0) drawn.push([((draw * ends) + t + farther) * sizes + size, weight]);
      }
    }
    return grid.fields.map((_, field) => {
      let found = this.between("base", base, field, grid.plain_steps);
      if (found === 0) return 0;
      found *= this.between("loads", loads, field, grid.factor_steps);
      found *= this.between("shares", shares, field, grid.factor_steps);
      return drawn.length ? found * this.between("drawn", drawn, field, grid.factor_steps) : found;
    });
  }

  // The inputs of runs: durations and rules by name, and tables.
  inputs(chosen, draw = null) {
    const { grid, about } = this, open = chosen.rate != null, several = chosen.threads > 1;
    const fields = this.fields(chosen, draw), named = {};
    grid.fields.forEach((name, index) => { named[name] = fields[index]; });
    const setup = { ...about.setups[2 * open + several] };
    const samples = about.samples_load && several;
    Object.assign(setup, {
      io_threads: chosen.threads, clients: chosen.clients, generators: Math.min(grid.generators, chosen.clients),
      pipeline: chosen.pipeline, outstanding_limit: open ? 1 : chosen.pipeline,
      backlog_limit: Math.ceil(65536 / chosen.clients), first_owner: 0, owners: 1,
      initial_active: samples && !open && chosen.clients >= 8 ? 2 : 1,
      generator_refills: Number(about.refills && chosen.pipeline > 1 && !open),
    });
    if (open) setup.mean_interarrival_ps = Math.round(PS_PER_S * setup.generators / chosen.rate);
    if (about.first_owner !== null && several) {
      Object.assign(setup, { first_owner: about.first_owner, owners: chosen.threads - about.first_owner });
      setup.initial_active = chosen.threads;
    }
    for (const name of grid.of_draws) setup[name] = Math.round(named[name]);
    const durations = Object.fromEntries(grid.scalars.map((name) => [name, Math.round(named[name])]));
    const both = [[0, chosen.get], [1, 1 - chosen.get]].filter(([, share]) => share > 1e-9);
    const first = both[0][0] === 0 ? Math.round(both[0][1] * 1024) : 0;
    const size = grid.values.indexOf(chosen.value);
    const codes = both.map(([code]) => {
      const of = (name) => Math.round(named[`${name}.${code}`]);
      const stalls = Array.from({ length: 256 }, (_, q) => of(Math.floor(q * grid.stalls / 256)));
      return { parse: of("parse_by_code_ps"), execute: of("execute_by_code_ps"),
        prefetched: of("prefetched_stall_by_code_ps"), write: of("write_by_code_ps"),
        free: of("free_by_code_ps"), stalls,
        request: about.messages[size][0][code], reply: about.messages[size][1][code] };
    });
    const length = about.prefetched[Number(several)], half = Math.floor((length - 1) / 2);
    const knots = [2, half, length - 1], prefetch = Array(length).fill(0);
    for (let keys = 2; keys < length; keys++) {
      const i = keys <= half ? 0 : 1, span = knots[i + 1] - knots[i];
      const [low, high] = [named[`prefetch.${i}`], named[`prefetch.${i + 1}`]];
      prefetch[keys] = Math.round(span > 0 ? low + (high - low) * (keys - knots[i]) / span : high);
    }
    const [scale, less, least] = about.wakes.draws[draw === null ? 0 : draw + 1];
    const wakes = about.wakes.nominal_ns.map((ns) => Math.round(1000 * Math.max(least, scale * ns - less)));
    return { chosen, about, open, samples, setup, durations, codes, first, prefetch, wakes, grid,
      policy: several ? about.policy : 0 };
  }
}

// --- one run ---------------------------------------------------------------------------------------

class Node {
  constructor(instance, grid) {
    Object.assign(this, { run: instance.exports, grid });
  }

  words(at, length) {
    return new BigInt64Array(this.run.memory.buffer, at, length);
  }

  simulate(inputs, { warmup, end, active = 0 }, replication) {
    const { grid } = this, setup = { ...inputs.setup };
    Object.assign(setup, { warmup_ps: warmup, end_ps: end, series_ps: Math.max(1, Math.floor(end / 256)),
      seed: grid.seed, replication });
    if (active > 0) setup.initial_active = Math.min(active, setup.io_threads);
    const told = { ...inputs.durations, ...setup };
    const row = [...grid.head.map((name) => told[name]), ...grid.jitter, ...Array(256).fill(0), ...inputs.wakes];
    for (let draw = 0; draw < 1024; draw++) row.push(inputs.codes.length > 1 && draw >= inputs.first ? 1 : 0);
    row.push(...inputs.prefetch);
    for (const code of inputs.codes) {
      row.push(code.parse, code.execute, code.prefetched, code.request, code.reply, code.write, code.free, 1, 0, 0,
        ...code.stalls);
    }
    const place = this.run.input(BigInt(row.length));
    this.words(place, row.length).set(row.map((number) => BigInt(number)));
    const events = Number(this.run.simulate(
      BigInt(inputs.policy), BigInt(inputs.codes.length), BigInt(inputs.prefetch.length)));
    return this.result(inputs, setup, events);
  }

  result(inputs, setup, events) {
    const { grid, run } = this;
    const counted = this.words(run.counters(), grid.counters.length);
    const counters = Object.fromEntries(grid.counters.map((name, i) => [name, Number(counted[i])]));
    const threads = setup.io_threads + setup.generators, at = run.busy();
    const busy = Array.from(this.words(at, threads + 1), Number);
    const latencies = this.words(run.latencies(), N_BUCKETS + 3);
    const counts = new Map();
    for (let bucket = 0; bucket < N_BUCKETS; bucket++) {
      if (latencies[bucket]) counts.set(bucket, Number(latencies[bucket]));
    }
    const latency = { counts, sum: Number(latencies[N_BUCKETS]) + Number(latencies[N_BUCKETS + 1]) * 2 ** 61,
      max: Number(latencies[N_BUCKETS + 2]) };
    const entries = Math.max(1, Math.ceil(setup.end_ps / setup.series_ps));
    const series = Array.from(this.words(run.series(), 3 * entries), Number);
    const window = setup.end_ps - setup.warmup_ps, server = busy.slice(0, setup.io_threads);
    const spent = inputs.about.threads_sleep || setup.io_threads === 1 ? sum(server)
      : busy[threads] + counters.active_thread_ps;
    return {
      setup, counters, latency, events, window, series, rate: counters.completions * PS_PER_S / window,
      backlog: Number(run.backlog()), main: server[0] / window, io: server.slice(1).map((ps) => ps / window),
      generator: sum(busy.slice(setup.io_threads, threads)) / window / setup.generators,
      network: this.network(inputs, setup, counters, window), cpu_us: spent / counters.completions / 1e6,
    };
  }

  network(inputs, setup, counters, window) {
    const framed = Math.max(counters.wire_bytes_in + setup.header_bytes * counters.packets_in,
      counters.wire_bytes_out + setup.header_bytes * counters.packets_out);
    const packets = counters.packets_in + counters.packets_out;
    return Math.max(...[framed * inputs.durations.wire_ps_per_kib / 1024, packets * inputs.durations.packet_ps,
      framed * inputs.durations.flow_ps_per_kib / 1024 / setup.clients].map((used) => Math.min(1, used / window)));
  }
}

// --- how long to simulate: run_length.py and simulation.py -----------------------------------------

function settling_ps(inputs, active = 0, most = 0) {
  if (!inputs.samples) return 0;
  const begins = active || (!inputs.open && inputs.chosen.clients >= 8 ? 2 : 1), threads = inputs.chosen.threads;
  let periods = (Math.max(0, Math.min(threads, most || threads) - begins) + 1) * GROW_PERIOD_PS;
  if (begins === 1) periods += 2 * IGNITE_PERIOD_PS;
  return Math.floor(periods * SAMPLES_PER_DECISION / CONTROL_SPEEDUP);
}

const turn_ps = (inputs, period) =>
  inputs.samples ? Math.floor((SHRINK_AFTER_PS + SAMPLES_PER_DECISION * period) / CONTROL_SPEEDUP) : 0;
const cycle_ps = (inputs) => turn_ps(inputs, IGNITE_PERIOD_PS);
const trying_ps = (inputs) => inputs.chosen.threads > 2 ? turn_ps(inputs, GROW_PERIOD_PS) : 0;
const starting_ps = (inputs) => inputs.open ? 0 : inputs.setup.generators * inputs.setup.generator_start_ps;

function longest_ps(inputs) {
  const agents = inputs.chosen.threads + inputs.setup.generators + inputs.chosen.clients;
  return Math.min(3600 * PS_PER_S, 2 ** (62 - Math.ceil(Math.log2(agents))) - 1);
}

const helpers = (result) => result.counters.active_thread_ps / result.window;
const alternates = (inputs, result) =>
  helpers(result) < 2 && result.counters.activations > 0 && cycle_ps(inputs) > 0;

function pilot_run(node, inputs) {
  if (inputs.open) return open_pilot(node, inputs);
  let warmup = Math.max(settling_ps(inputs), starting_ps(inputs)) + PILOT_PS;
  let measured = Math.max(PILOT_PS, trying_ps(inputs));
  const longest = Math.floor(longest_ps(inputs) / 2);
  for (;;) {
    warmup = Math.min(warmup, longest);
    measured = Math.min(measured, longest);
    const result = node.simulate(inputs, { warmup, end: warmup + measured }, 0);
    const few = inputs.samples && helpers(result) < 2;
    if (few && measured < Math.min(cycle_ps(inputs), longest)) {
      warmup = measured = cycle_ps(inputs) + PILOT_PS;
      continue;
    }
    const enough = result.counters.completions >= PILOT_REQUESTS || result.events > MOST_PILOT_EVENTS;
    if (enough || measured === longest) {
      return { result, rate: Math.max(result.rate, 1), changing: alternates(inputs, result), settled: 0,
        trying: result.counters.activations > 0, active: inputs.samples ? result.counters.active_threads : 0 };
    }
    [warmup, measured] = [2 * warmup, 2 * measured];
  }
}

function surely_active(inputs) {
  if (settling_ps(inputs) === 0) return 0;
  const ps = inputs.durations, both = inputs.codes.length > 1;
  let each = ps.poll_event_ps + ps.read_event_ps + ps.recv_ps + ps.write_event_ps + ps.send_ps;
  const shares = both ? [inputs.first / 1024, 1 - inputs.first / 1024] : [1];
  each += sum(inputs.codes.map((code, i) => shares[i] * (code.parse + code.execute + mean(code.stalls))));
  const needed = each * inputs.chosen.rate / PS_PER_S;
  return needed < 0.8 ? 1 : Math.min(inputs.chosen.threads, 1 + Math.max(1, Math.floor(needed)));
}

function open_pilot(node, inputs) {
  const rate = inputs.chosen.rate, active = surely_active(inputs);
  const starts = active ? settling_ps(inputs, active) : 0;
  const first = window_of(inputs, { rate, changing: false, settled: starts, active }, OPEN_PILOT_REQUESTS);
  const [result, last] = settled_run(node, inputs, first, 0);
  return { result, rate, changing: alternates(inputs, result), trying: false,
    settled: (grows([backlog_growth(result)]) ? first : last).warmup - starts,
    active: active ? result.counters.active_threads : 0 };
}

function window_of(inputs, pilot, requests, { brief = false, near = brief ? 0 : NEAR } = {}) {
  const trip = inputs.chosen.clients * inputs.chosen.pipeline;
  let active = pilot.active, settle = 0;
  if (!inputs.open) {
    active = pilot.active - near > 1 ? pilot.active - near : 0;
    settle = settling_ps(inputs, active, pilot.active + near) + starting_ps(inputs);
    requests = Math.max(requests, (brief ? 12 : 50) * trip);
  }
  let measured = Math.ceil(requests / pilot.rate * PS_PER_S);
  if (pilot.changing) measured = Math.max(measured, 2 * cycle_ps(inputs));
  if (pilot.trying && !brief) measured = Math.max(measured, trying_ps(inputs));
  let warm = Math.ceil(10 * trip / pilot.rate * PS_PER_S);
  if (inputs.open) {
    settle = inputs.samples ? Math.floor(2 * SAMPLES_PER_DECISION * GROW_PERIOD_PS / CONTROL_SPEEDUP) : 0;
    warm = Math.max(Math.floor(measured / 4), pilot.settled);
  }
  const half = Math.floor(longest_ps(inputs) / 2);
  measured = Math.min(measured, half);
  const warmup = Math.min(settle + Math.max(warm, Math.floor(measured / 5)), half);
  return { warmup, end: warmup + measured, active };
}

function settled_run(node, inputs, begins, replication) {
  let { warmup, end } = begins;
  const rate = inputs.chosen.rate ?? Infinity;
  const longest = Math.min(LONGEST * (end - warmup), Math.round(MOST_REQUESTS / rate * PS_PER_S));
  for (;;) {
    const result = node.simulate(inputs, { warmup, end, active: begins.active }, replication);
    if (!inputs.open) return [result, { warmup, end }];
    const growth = backlog_growth(result);
    const decided = growth.caught_up
      ? DRAINS_T < growth.errors && growth.errors < SETTLED_T && !growth.left_over
      : grows([growth]) && !growth.speeds_up;
    const enough = (growth.caught_up || warmup >= settling_ps(inputs, begins.active)) && decided;
    const measured = 2 * (end - warmup);
    if (enough || measured > longest || end + measured > longest_ps(inputs)) return [result, { warmup, end }];
    [warmup, end] = [end, end + measured];
  }
}

function backlog_growth(result) {
  const { setup, counters, series } = result, begins = setup.warmup_ps, ends = setup.end_ps;
  const seconds = (ends - begins) / PS_PER_S, rate = setup.generators * PS_PER_S / setup.mean_interarrival_ps;
  const times = [], backlog = [], completed = [];
  let done = 0, due = 0;
  for (let entry = 0; 3 * entry < series.length; entry++) {
    done += series[3 * entry];
    due += series[3 * entry + 2];
    const time = setup.series_ps * (entry + 1);
    if (time >= begins && time <= ends) {
      times.push(time);
      backlog.push(due - done);
      completed.push(done);
    }
  }
  const at_end = result.backlog + counters.arrivals - counters.overflows - counters.completions;
  const late = [...backlog.filter((_, i) => times[i] >= (begins + ends) / 2), at_end];
  const caught_up = Math.min(...late) <= setup.clients;
  const left_over = result.backlog > Math.max(setup.clients, ...late);
  const counts = caught_up ? backlog : completed, parts = [];
  if (counts.length >= PARTS) {
    for (let part = 0; part <= PARTS; part++) {
      parts.push(interpolated(times, counts, begins + (ends - begins) * part / PARTS));
    }
  }
  const changes = parts.slice(1).map((count, i) => count - parts[i]);
  let least = Math.sqrt(2 * Math.max(counters.arrivals, 1)) / seconds;
  let rps = (counters.arrivals - counters.completions) / seconds;
  if (!caught_up) {
    rps = rate - result.rate;
    if (changes.length >= FEWEST_PARTS) least = LEAST_ERROR * rate;
  }
  const found = changes.length >= FEWEST_PARTS ? deviation(changes) * Math.sqrt(changes.length) / seconds : 0;
  const error = Math.max(found, least), half = Math.floor(changes.length / 2);
  const halves = sum(changes.slice(half)) - sum(changes.slice(0, half));
  return { rps, error, errors: rps / error, caught_up, left_over,
    speeds_up: !caught_up && halves / (seconds / 2) > 2 * SETTLED_T * error };
}

function grows(growths) {
  const error = Math.sqrt(sum(growths.map((growth) => growth.error ** 2))) / growths.length;
  return mean(growths.map((growth) => growth.rps)) / error > OVERLOADED_T;
}

function interpolated(xs, ys, x) {
  if (x <= xs[0]) return ys[0];
  if (x >= xs[xs.length - 1]) return ys[ys.length - 1];
  let low = 0, high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) low = middle;
    else high = middle;
  }
  return ys[low] + (ys[high] - ys[low]) * (x - xs[low]) / (xs[high] - xs[low]);
}

// --- what runs say: predict.py ---------------------------------------------------------------------

function bounds_ps(bucket) {
  if (bucket === 0) return [0, 1];
  const octave = Math.floor((bucket - 1) / 128), step = (bucket - 1) % 128, width = 2 ** octave / 128;
  return [2 ** octave + step * width, 2 ** octave + (step + 1) * width];
}

function quantile_ms(latency, q) {
  const rank = Math.max(1, Math.ceil(q * sum([...latency.counts.values()])));
  let below = 0;
  for (const [bucket, inside] of latency.counts) {
    if (below + inside >= rank) {
      const [low, high] = bounds_ps(bucket), first = Math.ceil(low), last = Math.ceil(high) - 1;
      return Math.min(first + (rank - below - 0.5) / inside * (last - first), latency.max) / PS_PER_MS;
    }
    below += inside;
  }
  return NaN;
}

const QUANTILES = { p50_ms: 0.5, p90_ms: 0.9, p99_ms: 0.99 };
const BELOW = { p90_ms: "p50_ms", p99_ms: "p90_ms" };

function metrics_of(result) {
  const values = { throughput_rps: result.rate, mean_ms: result.latency.sum / result.counters.completions / PS_PER_MS };
  for (const [name, q] of Object.entries(QUANTILES)) values[name] = quantile_ms(result.latency, q);
  const growth = result.setup.open_loop ? backlog_growth(result) : null;
  return { values, result, growth, overloaded: growth !== null && grows([growth]) };
}

function brief_run(node, inputs, pilot, replication) {
  const run = (window) => settled_run(node, inputs, window, replication)[0];
  let result = run(window_of(inputs, pilot, DRAW_REQUESTS, { brief: true }));
  if (inputs.samples && !inputs.open && result.counters.active_threads !== pilot.active) {
    result = run(window_of(inputs, pilot, DRAW_REQUESTS, { brief: true, near: NEAR }));
  }
  if (inputs.samples && result.counters.activations > 0) {
    result = run(window_of(inputs, { ...pilot, trying: true }, DRAW_REQUESTS));
  }
  return metrics_of(result);
}

class Prediction {
  constructor(tables, inputs, nominal, drawn) {
    Object.assign(this, { tables, inputs, nominal, drawn, about: tables.about, found: new Map() });
    this.open = inputs.open;
    const growths = nominal.map((run) => run.growth);
    this.overloaded = this.open && grows(growths);
    const mean_of = (value) => mean(nominal.map((run) => value(run.result)));
    const threads = nominal[0].result.io.map((_, i) => mean_of((result) => result.io[i]));
    this.threads = threads;
    this.utilisation = { "main thread": mean_of((r) => r.main),
      "I/O threads": mean_of((r) => Math.max(0, ...r.io)), "load generator": mean_of((r) => r.generator),
      network: mean_of((r) => r.network) };
  }

  mean(name) {
    return mean(this.nominal.map((run) => run.values[name]));
  }

  get model_error() {
    const share = this.about.memory_error > 0 ? Math.min(1, this.memory_wait_ns() / (1000 * mean(
      this.nominal.map((run) => run.result.cpu_us)))) : 0;
    return Math.hypot(this.about.model_error, this.about.memory_error * share);
  }

  memory_wait_ns() {
    const { counters } = this.nominal[0].result, { codes, first } = this.inputs;
    const shares = codes.length > 1 ? [first / 1024, 1 - first / 1024] : [1];
    const fetched = Math.min(1, counters.prefetched_keys / Math.max(1, counters.completions));
    return sum(codes.map((code, i) =>
      shares[i] * ((1 - fetched) * mean(code.stalls) + fetched * code.prefetched))) / 1000;
  }

  half(name, error) {
    const half = Z95 * error;
    if (name !== "throughput_rps" || !this.open || this.overloaded) return half;
    const busiest = Math.min(1, Math.max(...Object.values(this.utilisation)));
    return Math.max(0, half + Math.log(Math.max(busiest, 1e-9)));
  }

  // Logarithms of a metric at the drawn numbers; infinite for latencies under overload.
  logs(name) {
    const unbounded = name !== "throughput_rps";
    return this.drawn.map((run) =>
      unbounded && run.overloaded ? Infinity : Math.log(Math.max(run.values[name], 1e-12)));
  }

  parts(name) {
    const nominal = this.nominal.map((run) => Math.log(Math.max(run.values[name], 1e-12)));
    const chance = nominal.length > 1 ? deviation(nominal) : 0, t = (n) => STUDENT_T[n - 1] ?? 1.96 + 2.4 / (n - 1);
    const logs = this.logs(name).filter(Number.isFinite), done = (runs) =>
      Math.max(1, mean(runs.map((run) => run.result.counters.completions)));
    const longer = this.drawn.length ? done(this.nominal) / done(this.drawn) : 1;
    const spread = logs.length > 1 ? deviation(logs) : 0;
    return {
      monte_carlo: nominal.length > 1 ? t(nominal.length) * chance / Math.sqrt(nominal.length) : 0,
      parameters: logs.length > 1 ? t(logs.length) * Math.sqrt(Math.max(0, spread ** 2 - longer * chance ** 2)) : 0,
      discrepancy: this.half(name, this.model_error), windows: this.half(name, this.about.variation),
    };
  }

  interval(name) {
    if (!this.found.has(name)) this.found.set(name, this.new_interval(name));
    return this.found.get(name);
  }

  new_interval(name) {
    const value = this.mean(name), parts = this.parts(name), half = Math.hypot(...Object.values(parts));
    let low = value * Math.exp(-half), high = value * Math.exp(half);
    if (this.open && name === "throughput_rps") high = Math.max(value, Math.min(high, this.inputs.chosen.rate));
    if (this.open && name !== "throughput_rps") {
      const logs = this.logs(name).sort((a, b) => a - b);
      const fastest = logs.length ? logs[Math.floor(0.025 * (logs.length - 1))] : -Infinity;
      const parameters = Math.min(parts.parameters, Math.max(0, Math.log(value) - fastest));
      low = value * Math.exp(-Math.hypot(...Object.values({ ...parts, parameters })));
    }
    const found = { value, low, high };
    return name in BELOW ? this.with_tail(name, found, this.interval(BELOW[name])) : found;
  }

  with_tail(name, { value, low, high }, below) {
    let shortest = value, longest = value;
    if (!this.open) {
      const clients = this.inputs.chosen.clients, turn = this.mean("mean_ms") * (clients - 1) / clients;
      [shortest, longest] = [Math.max(value - turn, Math.min(value, this.mean("p50_ms"))), value + turn];
    }
    longest = Math.max(longest, longest_probable_ms(this, QUANTILES[name]));
    const down = Math.hypot(Math.log(value / low), Math.log(value / shortest));
    const up = Math.hypot(Math.log(high / value), Math.log(longest / value));
    return { value, low: Math.min(value, Math.max(value * Math.exp(-down), below.low)),
      high: Math.max(value * Math.exp(up), below.high) };
  }

  // None under overload; without an upper end where some draws overload the server.
  estimate(name) {
    if (name === "throughput_rps") return this.interval(name);
    if (this.overloaded) return null;
    const found = this.interval(name);
    return this.drawn.some((run) => run.overloaded) ? { ...found, high: Infinity } : found;
  }

  get bottleneck() {
    if (this.threads.length && mean(this.threads) >= SATURATED) return "I/O threads";
    const [name, used] = Object.entries(this.utilisation).reduce((a, b) => b[1] > a[1] ? b : a);
    if (used >= SATURATED) return name;
    return this.open && !this.overloaded ? "none" : "clients";
  }
}

// --- pauses of a host that nobody captured: pauses.py ----------------------------------------------

function longest_probable_ms(prediction, q) {
  const [lengths, rates] = prediction.tables.grid.interruptions, logs = lengths.map(Math.log);
  const merged = new Map();
  for (const run of prediction.nominal) {
    for (const [bucket, count] of run.result.latency.counts) merged.set(bucket, (merged.get(bucket) ?? 0) + count);
  }
  const total = sum([...merged.values()]);
  const buckets = [...merged].sort((a, b) => a[0] - b[0]).map(([bucket, count]) =>
    [sum(bounds_ps(bucket)) / 2 / 1e6, count / total]);
  const used = [prediction.utilisation["main thread"], prediction.utilisation["load generator"]];
  if (prediction.threads.length) used.push(prediction.utilisation["I/O threads"]);
  const busy = used.map((share, i) => i === 1 && prediction.open && prediction.about.spins_when_due ? 1 : share);
  const last = lengths[lengths.length - 1];
  const rate_per_s = (wait) => wait >= last ? 0
    : interpolated(logs, rates, Math.log(Math.max(wait, lengths[0])));
  // The time of pauses beyond a wait, per second of a busy core.
  const grid = [0], left = [];
  for (let i = 0; i < 400; i++) grid.push(lengths[0] * (last / lengths[0]) ** (i / 399));
  if (prediction.open) {
    left[400] = 0;
    for (let i = 399; i >= 0; i--) {
      left[i] = left[i + 1] + (grid[i + 1] - grid[i]) * (rate_per_s(grid[i + 1]) + rate_per_s(grid[i])) / 2 / 1e6;
    }
  }
  const in_flight_s = prediction.mean("mean_ms") / 1000;
  const waiting = (wait) => {
    if (!prediction.open) return sum(busy) * rate_per_s(wait) * in_flight_s;
    const longer = wait > last ? 0 : interpolated(grid, left, wait);
    return sum(busy.map((share, i) =>
      share * longer / (1 - Math.min(SATURATED, used[i] + share * left[0]))));
  };
  const longer_than = (time) => sum(buckets.map(([middle, share]) =>
    share * (time < middle ? 1 : Math.min(1, waiting(time - middle)))));
  let low = 0, high = buckets[buckets.length - 1][0] + last;
  for (let halving = 0; halving < 60; halving++) {
    const middle = (low + high) / 2;
    if (longer_than(middle) > 1 - q) low = middle;
    else high = middle;
  }
  return high / 1000;
}

// --- all of it, step by step -----------------------------------------------------------------------

// Predictions that become better known: by a pilot run, by one at nominal numbers, by all of these,
// and with more and more draws.
function* predict(tables, node, chosen, draws) {
  const inputs = tables.inputs(chosen), pilot = pilot_run(node, inputs), nominal = [], drawn = [];
  yield new Prediction(tables, inputs, [metrics_of(pilot.result)], drawn);
  const window = window_of(inputs, pilot, REQUESTS);
  for (let number = 0; number < REPLICATIONS; number++) {
    nominal.push(metrics_of(settled_run(node, inputs, window, number)[0]));
    if (number === 0 || number === REPLICATIONS - 1) yield new Prediction(tables, inputs, nominal, drawn);
  }
  for (let draw = 0; draw < draws; draw++) {
    drawn.push(brief_run(node, tables.inputs(chosen, draw), pilot, 1000 + draw));
    if (draw % 5 === 4) yield new Prediction(tables, inputs, nominal, drawn);
  }
}
