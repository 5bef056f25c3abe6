(() => {
  const { data } = vicinal;
  const get = (id) => document.getElementById(id);
  const make = (tag, text, kind) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (kind) element.className = kind;
    return element;
  };
  const labelled = (text, input, kind) => { const label = make("label", undefined, kind); label.append(text + " ", input); return label; };
  const field = (options, tag = "input") => Object.assign(make(tag), options);
  /* Four digits, thousands separated, as in explanations. */
  const rounded = (value) => Math.abs(value) >= 1e4 && Math.abs(value) < 1e15 ? Math.round(value) : Number(value.toPrecision(4));
  const grouped = (value) => Math.abs(value) >= 1e4 ? value.toLocaleString("en-US") : String(value);
  const show = (value) => typeof value === "number" ? grouped(Number.isInteger(value) ? value : rounded(value)) : value === null ? "missing" : String(value);
  const percent = (share) => (100 * share).toFixed(1) + " %";
  const named = (value) => (data.target ? data.target + ": " : "") + show(value);
  const best = (chances) => chances.reduce((at, p, k) => p > chances[at] ? k : at, 0);
  /* The predicted class: the most probable one, or one of two from its threshold on. */
  data.chosen = (chances) => !data.threshold ? best(chances)
    : chances[data.threshold.code] >= data.threshold.value ? data.threshold.code : 1 - data.threshold.code;
  const predicted = (output) => data.classes ? data.classes[data.chosen(output)] : output[0];
  const listen = (element, action) => { for (const kind of ["input", "change"]) element.addEventListener(kind, action); };
  const row = data.controls.map((control) => control.value);
  const inputs = [];

  // --- the row ---
  const reading = {
    number: (text) => text === "" ? null : Number(text),
    category: (text) => text,
    text: (text) => text,
    unknown: (text) => text.trim() === "" ? null : isNaN(text) ? text : Number(text),
  };
  function limits(control) {
    const box = make("div", undefined, "limits"), { name } = control;
    const cost = field({ type: "number", step: "any", min: 0, placeholder: "1" });
    cost.setAttribute("aria-label", `cost of ${name}`);
    if (control.kind === "category") {
      const ticks = control.categories.map((category) => field({ type: "checkbox", checked: true, value: category }));
      box.append(...ticks.map((tick) => labelled(tick.value, tick)), labelled("cost", cost));
      return { box, ticks, cost };
    }
    const way = make("select");
    for (const text of ["any direction", "only increase", "only decrease"]) way.append(make("option", text));
    way.setAttribute("aria-label", `direction of ${name}`);
    const ends = ["from", "to"].map((text) => { const end = field({ type: "number", step: "any" }); box.append(labelled(text, end)); return end; });
    box.prepend(way);
    box.append(labelled("cost", cost));
    return { box, way, ends, cost };
  }
  data.controls.forEach((control, j) => {
    const { kind, name } = control;
    const box = make("div", undefined, "control"), label = make("label", name);
    const input = make(kind === "category" ? "select" : "input", undefined, kind === "number" ? "" : "wide");
    const lock = field({ type: "checkbox" });
    lock.setAttribute("aria-label", `lock ${name}`);
    input.id = "c" + j; label.htmlFor = input.id;
    let number = null;
    if (kind === "number") {
      Object.assign(input, { type: "range", min: control.min, max: control.max, step: control.step });
      number = field({ type: "number", step: "any", id: "n" + j });
      number.setAttribute("aria-label", name);
    } else if (kind === "category") for (const category of control.categories) input.append(field({ value: category, textContent: category }, "option"));
    else input.type = "text";
    const set = (cell) => {
      row[j] = cell;
      if (cell !== null) input.value = cell;
      if (number && document.activeElement !== number) { number.value = cell === null ? "" : rounded(cell) === cell ? cell : rounded(cell); number.placeholder = "missing"; }
    };
    for (const source of number ? [input, number] : [input]) listen(source, () => {
      const cell = reading[kind](source.value);
      if (cell === row[j]) return;
      set(cell);
      get("start").value = "";
      if (data.rows.length) get("responding").value = j;
      update();
    });
    const rules = ["number", "category"].includes(kind) && data.rows.length ? limits(control) : null;
    inputs[j] = { set, lock, rules };
    set(control.value);
    box.append(label, ...(number ? [number] : []));
    if (rules) box.append(labelled("lock", lock, "lock"));
    box.append(input);
    if (rules) {
      const more = make("details"); more.append(make("summary", "limits"), rules.box); box.append(more);
      for (const part of [lock, ...rules.box.querySelectorAll("input, select")]) listen(part, () => change());
    }
    get("controls").append(box);
    get("responding").append(field({ value: j, textContent: name }, "option"));
  });
  get("controls").addEventListener("submit", (event) => event.preventDefault());
  get("start").append(field({ value: "", textContent: "typical row" }, "option"));
  data.rows.forEach((_, i) => get("start").append(field({ value: i, textContent: "row " + data.numbers[i] + (data.truth ? ", " + named(data.truth[i]) : "") }, "option")));
  let started = "";
  listen(get("start"), () => {
    if (get("start").value === started && started === "") return;
    started = get("start").value;
    const start = started === "" ? data.controls.map((control) => control.value) : data.rows[Number(started)];
    start.forEach((cell, j) => { if (inputs[j]) inputs[j].set(cell); else row[j] = cell; });
    update();
  });

  // --- the prediction ---
  function bar(text, share, color, shown, isNow) {
    const line = make("div", undefined, isNow ? "chance now" : "chance"), track = make("div", undefined, "track"), fill = make("div", undefined, "fill " + color);
    fill.style.width = percent(share).replace(" ", ""); track.append(fill);
    line.append(make("span", text), track, make("b", shown));
    return line;
  }
  function showPrediction({ output, interval, labels, typicality }) {
    get("prediction").textContent = named(predicted(output));
    get("bars").replaceChildren(...(data.classes ?? []).map((name, k) => bar(named(name), output[k], "k" + data.colors[k], percent(output[k]))));
    const coverage = show(100 * data.coverage) + " %";
    get("interval").textContent = interval && interval[0] !== null ? `${coverage} interval: ${show(interval[0])} to ${show(interval[1])}`
      : labels ? `${coverage} set of labels: ${labels.map(show).join(", ") || "none"}`
      : `No ${data.classes ? "set of labels" : "interval"}: the table has no target.`;
    get("novelty").textContent = typicality === undefined ? ""
      : `Typicality ${percent(typicality)}: ${typicality < 0.05 ? "the row is novel, and its prediction is less reliable." : "the row is typical."}`;
  }

  // --- the response to one column ---
  async function showResponse(isCurrent) {
    const j = Number(get("responding").value), control = data.controls[j];
    if (!["number", "category"].includes(control.kind)) { get("response").replaceChildren(make("p", "A free text has no curve.", "dim")); return; }
    const { min, max, is_whole } = control, isLine = control.kind === "number";
    const n = isLine ? Math.max(1, is_whole ? Math.min(vicinal.steps, max - min) : vicinal.steps) : 0;
    const values = isLine ? Array.from({ length: n + 1 }, (_, k) => { const at = min + (max - min) * k / n; return is_whole ? Math.round(at) : at; }) : control.categories;
    const outputs = await vicinal.outputs(values.map((value) => row.map((cell, k) => k === j ? value : cell)));
    if (!isCurrent()) return;
    const known = outputs.flat(), low = data.classes ? 0 : Math.min(...known), high = data.classes ? 1 : Math.max(...known);
    const share = (value) => high > low ? (value - low) / (high - low) : 0.5;
    const shown = data.classes ? percent : show;
    if (!isLine) {
      const k = data.classes ? data.chosen(output) : 0;
      const color = data.classes ? "k" + data.colors[k] : "";
      const title = make("p", data.classes ? `Probability of ${named(data.classes[k])}` : `Prediction${data.target ? " of " + data.target : ""}`, "dim");
      get("response").replaceChildren(title, ...values.map((value, i) => bar(value, share(outputs[i][k]), color, shown(outputs[i][k]), value === row[j])));
      return;
    }
    const { namespaceURI } = Object.assign(make("div"), { innerHTML: "<svg></svg>" }).firstChild;
    const svg = (tag, attributes, text) => {
      const element = document.createElementNS(namespaceURI, tag);
      for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
      if (text !== undefined) element.textContent = text;
      return element;
    };
    const x = (value) => 62 + 280 * (max > min ? (value - min) / (max - min) : 0.5), y = (value) => 130 - 118 * share(value);
    const name = data.classes ? "probability" : data.target ?? "prediction";
    const text = `${name} for ${control.name} from ${show(min)} (${outputs[0].map(shown).join(", ")}) to ${show(max)} (${outputs[n].map(shown).join(", ")})`;
    const chart = svg("svg", { viewBox: "0 0 350 172", role: "img", "aria-label": text });
    for (const end of [low, (low + high) / 2, high]) chart.append(
      svg("line", { class: "axis", x1: 62, x2: 342, y1: y(end), y2: y(end) }), svg("text", { x: 57, y: y(end) + 4, "text-anchor": "end" }, data.classes ? 100 * end + " %" : show(end)));
    for (const [end, anchor] of [[min, "start"], [max, "end"]]) chart.append(svg("text", { x: x(end), y: 147, "text-anchor": anchor }, show(end)));
    chart.append(svg("text", { x: 202, y: 164, "text-anchor": "middle" }, control.name.length > 48 ? control.name.slice(0, 47) + "…" : control.name));
    outputs[0].forEach((_, k) => chart.append(svg("polyline", {
      class: "curve " + (data.classes ? "s" + data.colors[k] : "reach"), points: outputs.map((output, i) => `${x(values[i]).toFixed(1)},${y(output[k]).toFixed(1)}`).join(" "),
    })));
    if (row[j] !== null && row[j] >= min && row[j] <= max) chart.append(svg("line", { class: "mark", x1: x(row[j]), x2: x(row[j]), y1: 12, y2: 130 }));
    get("response").replaceChildren(chart);
  }

  // --- nearest rows ---
  function showNearest(near) {
    const used = data.controls.map((_, j) => j).filter((j) => inputs[j]);
    const line = (kind, cells) => {
      const made = make("tr");
      made.append(...cells.map((cell) => { const one = make(kind, show(cell)); one.title = one.textContent; if (kind === "th") one.scope = "col"; return one; }));
      return made;
    };
    const truth = data.truth ? [data.target ?? "true value"] : [];
    const top = make("thead"), rest = make("tbody");
    top.append(line("th", ["row", "distance", ...truth, "prediction", ...used.map((j) => data.controls[j].name)]));
    rest.append(...near.map((one) => line("td", [one.row, one.distance, ...truth.map(() => one.truth), predicted(one.output), ...used.map((j) => one.cells[j])])));
    get("near").replaceChildren(top, rest);
  }

  // --- explanation and counterfactuals ---
  /* Options of the counterfactual as `vicinal.inspection.explain` has them. */
  function options() {
    const found = { fixed: [], increase: [], decrease: [], ranges: {}, categories: {}, costs: {}, n_counterfactuals: Math.min(5, Math.max(1, Number(get("many").value) || 1)) };
    if (!data.classes) { const reach = Number(get("reach").value); found.target = get("side").value === "0" ? [reach, null] : [null, reach]; }
    else if (get("wanted").value !== "") found.target = data.classes[Number(get("wanted").value)];
    data.controls.forEach(({ name }, j) => {
      const { lock, rules } = inputs[j] ?? {};
      if (!rules) return;
      if (lock.checked) found.fixed.push(name);
      if (rules.ticks?.some((tick) => !tick.checked)) found.categories[name] = rules.ticks.filter((tick) => tick.checked).map((tick) => tick.value);
      if (rules.way?.selectedIndex) found[["increase", "decrease"][rules.way.selectedIndex - 1]].push(name);
      const ends = rules.ends?.map((end) => end.value === "" ? null : Number(end.value));
      if (ends?.some((end) => end !== null)) found.ranges[name] = ends;
      if (Number(rules.cost.value) > 0) found.costs[name] = Number(rules.cost.value);
    });
    return found;
  }
  async function showCounterfactuals({ message, rows }, isCurrent) {
    const outputs = rows.length ? await vicinal.outputs(rows) : [];
    if (!isCurrent()) return;
    const parts = rows.flatMap((other, k) => {
      const list = make("ul", undefined, "changes");
      other.forEach((value, j) => {
        if (value === row[j]) return;
        const line = make("li", data.controls[j].name + ": " + show(row[j]) + " → ");
        line.append(make("b", show(value)));
        list.append(line);
      });
      const chance = data.classes ? ", " + percent(outputs[k][data.chosen(outputs[k])]) : "";
      return [...(rows.length > 1 ? [make("h3", `Alternative ${k + 1}`)] : []), list, make("p", `New prediction: ${named(predicted(outputs[k]))}${chance}.`)];
    });
    get("change").replaceChildren(...(parts.length ? parts : [make("p", message)]));
  }
  if (!data.classes) {
    const setGoal = (known) => { get("reach").value = rounded(known.sort((a, b) => a - b)[Math.floor(0.75 * known.length)] ?? 0); };
    if (data.truth) setGoal([...data.truth]);
    else vicinal.outputs(data.rows.slice(0, 100)).then((found) => { setGoal(found.map(([value]) => value)); update(); }, () => setGoal([]));
  }
  for (const input of get("goal").querySelectorAll("select, input")) listen(input, () => change());
  listen(get("responding"), () => change());
  if (data.threshold) get("rule").textContent = `Predicts ${named(data.classes[data.threshold.code])} from probability ${show(data.threshold.value)} on.`;
  if (!data.rows.length) for (const part of document.querySelectorAll(".compares")) part.hidden = true;

  // The prediction comes at once, one request at a time; the rest waits for a pause.
  let requested = 0, waiting = 0, isWaiting = false, output = null, work = null, last = "";
  async function update() {
    requested += 1;
    clearTimeout(waiting);
    work?.abort();
    if (isWaiting) return;
    isWaiting = true;
    const mine = requested;
    try {
      const found = await vicinal.predict([...row]);
      get("error").textContent = "";
      output = found.output;
      showPrediction(found);
      if (mine === requested) change(true);
    } catch (error) { get("error").textContent = error.message; }
    isWaiting = false;
    if (mine !== requested) update();
  }
  /* Compute the other parts after a pause, unless nothing has changed. */
  function change(isNew = false) {
    const state = JSON.stringify([options(), get("responding").value]);
    if (output === null || (!isNew && state === last)) return;
    last = state;
    clearTimeout(waiting);
    work?.abort();
    work = new AbortController();
    const { signal } = work, isCurrent = () => !signal.aborted;
    // What belongs to an earlier row is dimmed until it is computed again.
    const busy = (ids, isBusy) => { for (const id of ids) get(id)?.setAttribute("aria-busy", isBusy); };
    busy(["response", "near", "why", "change"], true);
    waiting = setTimeout(async () => {
      try {
        if (data.rows.length) {
          await showResponse(isCurrent);
          const near = await vicinal.nearest([...row]);
          if (!isCurrent()) return;
          showNearest(near);
          busy(["response", "near"], false);
        }
        const found = await vicinal.explain([...row], data.rows.length ? options() : undefined, output, signal);
        if (!isCurrent()) return;
        if (get("why")) get("why").innerHTML = found.html;
        await showCounterfactuals(found, isCurrent);
        if (isCurrent()) busy(["why", "change"], false);
      } catch (error) { if (isCurrent()) get("error").textContent = error.message; }
    }, vicinal.pause);
  }
  update();
})();
