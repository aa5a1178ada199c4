// The table of points of docs/accuracy.md: filters, a summary, measured against predicted, rows.
// accuracy.js, which the build makes of docs/accuracy.json, has put the points into window.accuracy.
{
  const ROWS = 50
  const place = document.getElementById("accuracy-points")
  const { cells, columns } = window.accuracy
  const points = cells.flatMap(({ each, ...cell }) =>
    each.map((row) => ({
      ...cell,
      engine: cell.engine.replace(/-(?=[^-]*$)/, " "),
      host: cell.host_name,
      ...Object.fromEntries(columns.map((name, column) => [name, row[column]])),
    }))
  )
  const outside = (p) => p.low !== null && (p.measured < p.low || p.measured > p.high)
  const chosen = { engine: "", host: "", tier: "", quantity: "throughput", load: "", outside: false }
  let order = { by: (p) => Math.abs(Math.log1p(p.error)), name: "error", down: true }
  let shown = ROWS

  const make = (tag, given = {}, ...children) => {
    const made = Object.assign(document.createElement(tag), given)
    made.append(...children)
    return made
  }
  const percent = (share, digits = 1) => (share === null ? "–" : `${(100 * share).toFixed(digits)}%`)
  const number = (value) =>
    value >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)))
  const quantile = (sorted, share) => {
    const at = (sorted.length - 1) * share
    const below = Math.floor(at)
    return sorted[below] + (at - below) * (sorted[Math.ceil(at)] - sorted[below])
  }
  const sorted = (values) => Float64Array.from(values).sort()

  const matching = (but) =>
    points.filter(
      (p) =>
        ["engine", "host", "tier", "quantity"].every(
          (name) => name === but || !chosen[name] || p[name] === chosen[name]
        ) &&
        p.load.toLowerCase().includes(chosen.load.toLowerCase()) &&
        (!chosen.outside || outside(p))
    )

  // A list offers what the other choices leave.
  const selects = ["engine", "host", "tier", "quantity"].map((name) =>
    make("select", {
      name,
      ariaLabel: name,
      onchange: (event) => choose({ [name]: event.target.value }),
    })
  )
  const load = make("input", {
    placeholder: "load, such as P16 or hgetall",
    ariaLabel: "load",
    oninput: (event) => choose({ load: event.target.value }),
  })
  const only = make("input", {
    type: "checkbox",
    onchange: (event) => choose({ outside: event.target.checked }),
  })
  const filters = make("div", { className: "accuracy-filters" }, ...selects, load)
  filters.append(make("label", {}, only, " outside their interval"))
  const summary = make("p")
  const canvas = make("canvas")
  const legend = make("p", { className: "accuracy-legend" })
  const table = make("table", { className: "accuracy-table" })
  const more = make("button", { className: "md-button", textContent: "More rows" })
  more.onclick = () => {
    shown += 4 * ROWS
    draw()
  }
  place.append(filters, summary, canvas, legend)
  place.append(make("div", { className: "accuracy-scroll" }, table), more)

  function choose(change) {
    Object.assign(chosen, change)
    shown = ROWS
    draw()
  }

  function drawFilters() {
    for (const select of selects) {
      const name = select.name
      const left = [...new Set(matching(name).map((p) => p[name]))]
      const kept = left.includes(chosen[name]) || !chosen[name] ? left : [chosen[name], ...left]
      const all = name === "quantity" ? "all quantities" : `all ${name}s`
      select.replaceChildren(make("option", { value: "", textContent: all }))
      select.append(...kept.map((value) => make("option", { value, textContent: value })))
      select.value = chosen[name]
    }
    load.value = chosen.load
    only.checked = chosen.outside
  }

  function drawSummary(found, units) {
    if (!found.length) return (summary.textContent = "No point is like this.")
    const errors = sorted(found.map((p) => Math.abs(p.error)))
    const repeats = sorted(found.filter((p) => p.repeat !== null).map((p) => p.repeat))
    const known = found.filter((p) => p.low !== null)
    const parts = [
      `${found.length.toLocaleString("en")} points${units.length === 1 ? ` in ${units[0]}` : ""}`,
      `median error ${percent(quantile(errors, 0.5))}`,
      `95% below ${percent(quantile(errors, 0.95))}`,
      repeats.length ? `repeats differ by ${percent(quantile(repeats, 0.5))}` : "repeats not known",
      known.length
        ? `${percent(known.filter((p) => !outside(p)).length / known.length, 0)} of ` +
          `${known.length.toLocaleString("en")} intervals hold what was measured`
        : "no intervals",
    ]
    summary.textContent = `${parts.join("; ")}.`
  }

  // Dots on logarithmic axes, with the line on which a prediction is right.
  function drawDots(found, units) {
    canvas.hidden = legend.hidden = units.length !== 1
    if (units.length !== 1) return
    const style = getComputedStyle(document.body)
    const ink = style.getPropertyValue("--md-default-fg-color--light")
    const rule = style.getPropertyValue("--md-default-fg-color--lightest")
    const [accent, orange] = ["--md-accent-fg-color", "--accuracy-outside"].map((name) =>
      style.getPropertyValue(name)
    )
    const side = found.length > 500 ? 3 : 5
    const width = place.clientWidth
    const height = Math.min(360, 0.8 * width)
    const ratio = window.devicePixelRatio || 1
    canvas.style.width = `${width}px`
    canvas.style.height = `${height}px`
    canvas.width = width * ratio
    canvas.height = height * ratio
    const pen = canvas.getContext("2d")
    pen.scale(ratio, ratio)
    pen.font = `11px ${style.fontFamily}`
    const values = found.flatMap((p) => [p.measured, p.predicted])
    const low = Math.log10(values.reduce((a, b) => Math.min(a, b))) - 0.05
    const high = Math.log10(values.reduce((a, b) => Math.max(a, b))) + 0.05
    const left = 52
    const bottom = height - 34
    const x = (v) => left + ((Math.log10(v) - low) / (high - low)) * (width - left - 8)
    const y = (v) => bottom - ((Math.log10(v) - low) / (high - low)) * (bottom - 8)
    const line = (ax, ay, bx, by) => {
      pen.beginPath()
      pen.moveTo(ax, ay)
      pen.lineTo(bx, by)
      pen.stroke()
    }
    const steps = high - low < 2 ? [1, 2, 5] : [1]
    const short = (v) =>
      v >= 1e6 ? `${v / 1e6} M` : v >= 1e3 ? `${v / 1e3} k` : String(Number(v.toPrecision(1)))
    pen.strokeStyle = rule
    pen.fillStyle = ink
    for (let power = Math.floor(low); power <= high; power++)
      for (const step of steps) {
        const value = step * 10 ** power
        if (Math.log10(value) < low || Math.log10(value) > high) continue
        line(x(value), 8, x(value), bottom)
        line(left, y(value), width - 8, y(value))
        pen.textAlign = "center"
        pen.fillText(short(value), x(value), bottom + 14)
        pen.textAlign = "right"
        pen.fillText(short(value), left - 6, y(value) + 4)
      }
    pen.textAlign = "left"
    pen.fillText(`measured, ${units[0]}`, left, height - 4)
    pen.fillText("predicted", left + 4, 18)
    pen.strokeStyle = ink
    line(x(10 ** low), y(10 ** low), x(10 ** high), y(10 ** high))
    for (const far of [false, true]) {
      pen.fillStyle = far ? orange : accent
      pen.globalAlpha = found.length > 1000 ? 0.35 : 0.7
      for (const p of found)
        if (outside(p) === far) pen.fillRect(x(p.measured) - side / 2, y(p.predicted) - side / 2, side, side)
    }
    legend.textContent = found.some(outside)
      ? "On the line a prediction is right; orange is outside its interval."
      : "On the line a prediction is right."
  }

  const HEADS = [
    ["engine", (p) => p.engine],
    ["host", (p) => p.host],
    ["tier", (p) => p.tier],
    ["quantity", (p) => p.quantity],
    [
      "error",
      (p) => Math.abs(Math.log1p(p.error)),
      (p) => `${p.error > 0 ? "+" : ""}${percent(p.error)}`,
    ],
    ["repeats", (p) => p.repeat ?? -1, (p) => percent(p.repeat)],
    ["measured", (p) => p.measured, (p) => number(p.measured)],
    ["predicted", (p) => p.predicted, (p) => number(p.predicted)],
    [
      "interval",
      (p) => (p.low === null ? 0 : p.high / p.low),
      (p) => (p.low === null ? "–" : `${number(p.low)}–${number(p.high)}`),
    ],
    ["load", (p) => p.load],
  ]

  const style = (p, name, text) =>
    name === "error" && outside(p) ? "number accuracy-outside" : text ? "number" : name

  function drawTable(found) {
    const heads = HEADS.filter(([name]) => !chosen[name])
    const ordered = [...found].sort((a, b) => {
      const [one, other] = [order.by(a), order.by(b)]
      return (one < other ? -1 : one > other ? 1 : 0) * (order.down ? -1 : 1)
    })
    const head = make("tr")
    for (const [name, by, text] of heads) {
      const arrow = order.name === name ? (order.down ? " ↓" : " ↑") : ""
      const sort = make("button", { textContent: name + arrow })
      sort.onclick = () => {
        order = { by, name, down: order.name === name ? !order.down : true }
        draw()
      }
      head.append(make("th", { className: text ? "number" : name }, sort))
    }
    const rows = ordered.slice(0, shown).map((p) => {
      const row = make("tr")
      row.append(
        ...heads.map(([name, by, text]) =>
          make("td", { className: style(p, name, text), textContent: (text ?? by)(p) })
        )
      )
      return row
    })
    table.replaceChildren(make("thead", {}, head), make("tbody", {}, ...rows))
    more.hidden = ordered.length <= shown
  }

  function draw() {
    const found = matching()
    const units = [...new Set(found.map((p) => p.unit.replace("us", "µs")))]
    drawFilters()
    drawSummary(found, units)
    drawDots(found, units)
    drawTable(found)
  }

  // A cell of the two tables by engine and host leads to its points.
  const text = (cell) => cell.textContent.trim().replaceAll("\u00a0", " ")
  const lead = (cell, change) => {
    if (text(cell) === "not checked") return cell.classList.add("accuracy-empty")
    const link = make("a", { href: "#each-point", textContent: cell.textContent })
    link.onclick = () => choose({ quantity: "throughput", load: "", outside: false, ...change })
    cell.replaceChildren(link)
  }
  const [byTier, byHost] = document.querySelectorAll("article table:not(.accuracy-table)")
  for (const matrix of [byTier, byHost]) {
    matrix.className = "accuracy-matrix"
    const scrolling = make("div", { className: "accuracy-scroll" })
    matrix.replaceWith(scrolling)
    scrolling.append(matrix)
    const names = [...matrix.tHead.rows[0].cells].map(text)
    let engine = ""
    for (const row of matrix.tBodies[0].rows) {
      const own = [...row.cells]
      engine = text(own[0]) || engine
      if (matrix === byTier)
        own.slice(2).forEach((cell, n) =>
          lead(cell, { engine, tier: text(own[1]), host: names[n + 2] })
        )
      else
        own.slice(1).forEach((cell, n) =>
          lead(cell, { engine: names[n + 1], tier: "by catalogue", host: text(own[0]) })
        )
    }
  }
  addEventListener("resize", draw)
  new MutationObserver(draw).observe(document.body, { attributeFilter: ["data-md-color-scheme"] })
  draw()
}
