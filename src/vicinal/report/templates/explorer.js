(() => {
  const { data, effort } = vicinal;
  const get = (id) => document.getElementById(id);
  const make = (tag, text, kind) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (kind) element.className = kind;
    return element;
  };
  /* Four digits, thousands separated, as in explanations. */
  const rounded = (value) => Math.abs(value) >= 1e4 && Math.abs(value) < 1e15 ? Math.round(value) : Number(value.toPrecision(4));
  const grouped = (value) => Math.abs(value) >= 1e4 ? value.toLocaleString("en-US") : String(value);
  const show = (value) => typeof value === "number" ? grouped(Number.isInteger(value) ? value : rounded(value)) : value === null ? "missing" : String(value);
  const percent = (share) => (100 * share).toFixed(1) + " %";
  const best = (chances) => chances.reduce((at, p, k) => p > chances[at] ? k : at, 0);
  /* The predicted class: the most probable one, or one of two from its threshold on. */
  const chosen = (chances) => !data.threshold ? best(chances)
    : chances[data.threshold.code] >= data.threshold.value ? data.threshold.code : 1 - data.threshold.code;
  const row = data.controls.map((control) => control.value);
  const inputs = [];

  // --- the row ---
  const reading = {
    number: Number,
    category: (text) => text,
    text: (text) => text,
    unknown: (text) => text.trim() === "" ? null : isNaN(text) ? text : Number(text),
  };
  data.controls.forEach((control, j) => {
    if (!control.is_used) return;
    const box = make("div", undefined, "control");
    const label = make("label", control.name);
    const input = make(control.kind === "category" ? "select" : "input");
    const out = make("output", control.kind === "number" ? show(control.value) : "");
    input.id = "c" + j; label.htmlFor = input.id; out.htmlFor = input.id;
    if (control.kind === "number") Object.assign(input, { type: "range", min: control.min, max: control.max, step: control.step });
    if (control.kind === "category") for (const category of control.categories) { const option = make("option", category); option.value = category; input.append(option); }
    input.value = control.value ?? "";
    input.addEventListener("input", () => {
      row[j] = reading[control.kind](input.value);
      out.textContent = control.kind === "number" ? show(row[j]) : "";
      get("start").value = "";
      update();
    });
    inputs[j] = { input, out };
    box.append(label, out, input);
    get("controls").append(box);
  });
  get("controls").addEventListener("submit", (event) => event.preventDefault());
  get("start").append(make("option", "typical row"));
  get("start").firstChild.value = "";
  data.rows.forEach((_, i) => { const option = make("option", "row " + data.numbers[i] + (data.truth ? ": " + show(data.truth[i]) : "")); option.value = i; get("start").append(option); });
  get("start").addEventListener("input", () => {
    const start = get("start").value === "" ? data.controls.map((control) => control.value) : data.rows[Number(get("start").value)];
    start.forEach((cell, j) => {
      row[j] = cell;
      if (!inputs[j]) return;
      if (cell !== null) inputs[j].input.value = cell;
      inputs[j].out.textContent = data.controls[j].kind === "number" || cell === null ? show(cell) : "";
    });
    update();
  });

  // --- the prediction ---
  function showPrediction({ output, interval, labels, typicality }) {
    const bars = get("bars"); bars.replaceChildren();
    get("prediction").textContent = (data.target ? data.target + ": " : "") + show(data.classes ? data.classes[chosen(output)] : output[0]);
    (data.classes ?? []).forEach((name, k) => {
      const bar = make("div", undefined, "chance"), track = make("div", undefined, "track"), fill = make("div", undefined, "fill k" + data.colors[k]);
      fill.style.width = percent(output[k]).replace(" ", ""); track.append(fill);
      bar.append(make("span", show(name)), track, make("b", percent(output[k])));
      bars.append(bar);
    });
    const coverage = show(100 * data.coverage) + " %";
    get("interval").textContent = interval && interval[0] !== null ? `${coverage} interval: ${show(interval[0])} to ${show(interval[1])}`
      : labels ? `${coverage} set of labels: ${labels.map(show).join(", ") || "none"}`
      : `No ${data.classes ? "set of labels" : "interval"}: the table has no target.`;
    get("novelty").textContent = typicality === undefined ? ""
      : `Typicality ${percent(typicality)}: ${typicality < 0.05 ? "the row is novel, and its prediction is less reliable." : "the row is typical."}`;
  }

  // --- nearest rows ---
  function showNearest(near) {
    const table = get("near"), used = data.controls.map((_, j) => j).filter((j) => inputs[j]);
    const line = (kind, cells) => {
      const made = make("tr");
      made.append(...cells.map((cell) => { const one = make(kind, show(cell)); if (kind === "th") one.scope = "col"; return one; }));
      return made;
    };
    const truth = data.truth ? ["truth"] : [];
    const top = make("thead"), rest = make("tbody");
    top.append(line("th", ["row", "distance", ...truth.map(() => "true value"), "prediction", ...used.map((j) => data.controls[j].name)]));
    rest.append(...near.map((one) => line("td", [
      one.row, one.distance, ...truth.map((name) => one[name]),
      data.classes ? data.classes[chosen(one.output)] : one.output[0], ...used.map((j) => one.cells[j]),
    ])));
    table.replaceChildren(top, rest);
  }

  // --- the counterfactual ---
  const deviation = data.controls.map((control, j) => {
    if (control.kind !== "number") return 1;
    const cells = data.rows.map((cells) => cells[j]).filter((cell) => cell !== null).map(Number);
    const middle = cells.reduce((a, b) => a + b, 0) / (cells.length || 1);
    return Math.sqrt(cells.reduce((sum, cell) => sum + (cell - middle) ** 2, 0) / (cells.length || 1)) || 1;
  });
  function candidates(j) {
    const control = data.controls[j];
    if (!inputs[j] || row[j] === null || !["number", "category"].includes(control.kind)) return [];
    if (control.kind === "category") return control.categories.filter((category) => category !== row[j]).map((value) => ({ j, value, cost: 1 }));
    const steps = control.is_whole ? Math.min(effort.steps, control.max - control.min) : effort.steps;
    const found = [];
    for (let k = 0; k <= steps; k++) {
      let value = control.min + (control.max - control.min) * k / (steps || 1);
      if (control.is_whole) value = Math.round(value);
      if (value !== row[j]) found.push({ j, value, cost: Math.abs(value - row[j]) / deviation[j] });
    }
    return found;
  }
  const changed = (changes) => { const other = [...row]; for (const { j, value } of changes) other[j] = value; return other; };
  function goal(output) {
    if (!data.classes) {
      const wanted = Number(get("reach").value), up = wanted >= output[0];
      return { reached: (now) => up ? now[0] >= wanted : now[0] <= wanted, gain: (now) => up ? now[0] : -now[0] };
    }
    const wanted = get("wanted").value === "" ? null : Number(get("wanted").value), own = chosen(output);
    if (wanted === null) return { reached: (now) => chosen(now) !== own, gain: (now) => -now[own] };
    return { reached: (now) => chosen(now) === wanted, gain: (now) => now[wanted] };
  }
  /* The cheapest of all changes of one column, and of two of which one is among the most promising. */
  async function counterfactual(output) {
    const { reached, gain } = goal(output);
    if (reached(output)) return [];
    const cost = (changes) => changes.reduce((sum, change) => sum + change.cost, 0);
    const singles = data.controls.flatMap((_, j) => candidates(j));
    const outputs = await vicinal.outputs(singles.map((change) => changed([change])));
    const found = singles.filter((_, k) => reached(outputs[k])).sort((a, b) => a.cost - b.cost)[0];
    const most = found ? found.cost : Infinity;
    const promising = singles.map((change, k) => ({ change, gain: gain(outputs[k]) - 0.02 * change.cost }))
      .sort((a, b) => b.gain - a.gain).slice(0, effort.promising).map(({ change }) => change);
    const pairs = promising.flatMap((first) => singles.filter((second) => second.j !== first.j).map((second) => [first, second]))
      .filter((pair) => cost(pair) < most).sort((a, b) => cost(a) - cost(b)).slice(0, effort.pairs);
    for (let start = 0; start < pairs.length; start += 400) {
      const some = pairs.slice(start, start + 400);
      const now = await vicinal.outputs(some.map(changed));
      const at = now.findIndex(reached);
      if (at >= 0) return some[at];
    }
    return found ? [found] : null;
  }
  async function showCounterfactual(output, isCurrent) {
    const found = await counterfactual(output), box = get("change");
    if (!isCurrent()) return;
    if (!found) { box.replaceChildren(make("p", "No counterfactual was found that changes one or two columns.")); return; }
    if (!found.length) { box.replaceChildren(make("p", "The prediction is already as wanted.")); return; }
    const list = make("ul", undefined, "changes");
    for (const { j, value } of found) {
      const line = make("li", data.controls[j].name + ": " + show(row[j]) + " → ");
      line.append(make("b", show(value)));
      list.append(line);
    }
    const [now] = await vicinal.outputs([changed(found)]);
    if (!isCurrent()) return;
    const text = data.classes ? `New prediction: ${show(data.classes[chosen(now)])}, ${percent(now[chosen(now)])}.` : `New prediction: ${show(now[0])}.`;
    box.replaceChildren(list, make("p", text));
  }

  get("goal").hidden = false;
  if (data.classes) {
    get("reach").parentElement.remove();
    const any = make("option", "another class"); any.value = ""; get("wanted").append(any);
    data.classes.forEach((name, k) => { const option = make("option", show(name)); option.value = k; get("wanted").append(option); });
  } else {
    get("wanted").parentElement.remove();
    const setGoal = (known) => { get("reach").value = rounded(known.sort((a, b) => a - b)[Math.floor(0.75 * known.length)] ?? 0); };
    if (data.truth) setGoal([...data.truth]);
    else vicinal.outputs(data.rows.slice(0, 100)).then((found) => { setGoal(found.map(([value]) => value)); update(); }, () => setGoal([]));
  }
  for (const input of get("goal").querySelectorAll("select, input")) input.addEventListener("input", () => update());
  get("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  // --- why ---
  if (vicinal.why) get("explain").addEventListener("click", async () => {
    get("why").textContent = "…";
    try { get("why").innerHTML = await vicinal.why(row); }
    catch (error) { get("why").textContent = error.message; }
  });
  if (data.threshold) get("rule").textContent = `Predicts ${show(data.classes[data.threshold.code])} from probability ${show(data.threshold.value)} on.`;
  if (!data.rows.length) for (const part of document.querySelectorAll(".compares")) part.hidden = true;

  // The prediction comes at once, one request at a time; the rest waits for a pause.
  let requested = 0, waiting = 0, isWaiting = false;
  async function update() {
    requested += 1;
    clearTimeout(waiting);
    if (isWaiting) return;
    isWaiting = true;
    const mine = requested, isCurrent = () => mine === requested;
    try {
      const found = await vicinal.predict([...row]);
      get("error").textContent = "";
      showPrediction(found);
      if (data.rows.length && isCurrent()) waiting = setTimeout(() => compare(found.output, isCurrent), effort.pause);
    } catch (error) { get("error").textContent = error.message; }
    isWaiting = false;
    if (!isCurrent()) update();
  }
  async function compare(output, isCurrent) {
    try {
      const near = await vicinal.nearest([...row]);
      if (isCurrent()) showNearest(near);
      await showCounterfactual(output, isCurrent);
    } catch (error) { get("error").textContent = error.message; }
  }
  update();
})();
