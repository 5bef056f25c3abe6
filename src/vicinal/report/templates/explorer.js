(() => {
  const { data, encode, answer } = vicinal;
  const get = (id) => document.getElementById(id);
  const make = (tag, text, kind) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (kind) element.className = kind;
    return element;
  };
  const show = (value) => typeof value === "number" ? String(Number(value.toPrecision(4))) : value === null ? "missing" : String(value);
  const percent = (share) => (100 * share).toFixed(1) + " %";
  const best = (chances) => chances.reduce((at, p, k) => p > chances[at] ? k : at, 0);
  const row = data.controls.map((control) => control.value);
  const inputs = [];

  // --- the row ---
  data.controls.forEach((control, j) => {
    if (!data.columns[j].at.length) return;
    const box = make("div", undefined, "control");
    const label = make("label", control.name);
    const input = make(control.kind === "number" ? "input" : "select");
    const out = make("output", control.kind === "number" ? show(control.value) : "");
    input.id = "c" + j; label.htmlFor = input.id; out.htmlFor = input.id;
    if (control.kind === "number") Object.assign(input, { type: "range", min: control.min, max: control.max, step: control.step, value: control.value });
    else for (const level of control.levels || []) { const option = make("option", level); option.value = level; input.append(option); }
    if (control.kind !== "number") input.value = control.value;
    input.addEventListener("input", () => {
      row[j] = control.kind === "number" ? Number(input.value) : input.value;
      out.textContent = control.kind === "number" ? show(row[j]) : "";
      get("start").value = "";
      update();
    });
    inputs[j] = { input, out };
    box.append(label, out, input);
    get("controls").append(box);
  });
  get("controls").addEventListener("submit", (event) => event.preventDefault());
  get("start").append(make("option", "the usual row"));
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

  // --- the answer ---
  function draw(said) {
    const bars = get("bars"); bars.replaceChildren();
    if (!data.classes) {
      get("said").textContent = show(said[0]);
      get("interval").textContent = data.reach === null ? "No interval: the table has no target."
        : `${show(100 * data.coverage)} % interval: ${show(said[0] - data.reach)} to ${show(said[0] + data.reach)}`;
      return;
    }
    get("said").textContent = show(data.classes[best(said)]);
    data.classes.forEach((name, k) => {
      const bar = make("div", undefined, "chance"), track = make("div", undefined, "track"), fill = make("div", undefined, "fill");
      fill.style.width = percent(said[k]).replace(" ", ""); track.append(fill);
      bar.append(make("span", show(name)), track, make("b", percent(said[k])));
      bars.append(bar);
    });
    if (data.reach === null) { get("interval").textContent = "No set of labels: the table has no target."; return; }
    const kept = data.classes.filter((_, k) => 1 - said[k] <= data.reach).map(show);
    get("interval").textContent = `${show(100 * data.coverage)} % set of labels: ${kept.join(", ") || "none; unlike the rows of the table"}`;
  }

  // --- nearest rows ---
  const encoded = data.rows.map((cells) => { try { return encode(cells); } catch { return null; } });
  const known = encoded.filter((x) => x);
  const n = known.length || 1;
  const mean = known.length ? known[0].map((_, j) => known.reduce((sum, x) => sum + x[j], 0) / n) : [];
  const spread = mean.map((m, j) => Math.sqrt(known.reduce((sum, x) => sum + (x[j] - m) ** 2, 0) / n) || 1);
  function nearest(x) {
    return encoded.map((other, i) => ({ i, distance: other ? Math.sqrt(other.reduce((sum, value, j) => sum + ((value - x[j]) / spread[j]) ** 2, 0)) : Infinity }))
      .filter(({ distance }) => distance < Infinity).sort((a, b) => a.distance - b.distance).slice(0, 8);
  }
  function drawNear(x) {
    const table = get("near"), used = data.controls.map((_, j) => j).filter((j) => data.columns[j].at.length);
    const head = make("tr");
    for (const name of ["row", "distance", ...(data.truth ? ["truth"] : []), "model says", ...used.map((j) => data.controls[j].name)]) {
      const cell = make("th", name); cell.scope = "col"; head.append(cell);
    }
    const body = nearest(x).map(({ i, distance }) => {
      const line = make("tr"), said = answer(data.rows[i]);
      const cells = [data.numbers[i], distance, ...(data.truth ? [data.truth[i]] : []), data.classes ? data.classes[best(said)] : said[0], ...used.map((j) => data.rows[i][j])];
      line.append(...cells.map((cell) => make("td", show(cell))));
      return line;
    });
    const top = make("thead"), rest = make("tbody"); top.append(head); rest.append(...body);
    table.replaceChildren(top, rest);
  }

  // --- the least change ---
  const deviation = data.controls.map((control, j) => {
    if (control.kind !== "number") return 1;
    const cells = data.rows.map((cells) => cells[j]).filter((cell) => cell !== null).map(Number);
    const middle = cells.reduce((a, b) => a + b, 0) / (cells.length || 1);
    return Math.sqrt(cells.reduce((sum, cell) => sum + (cell - middle) ** 2, 0) / (cells.length || 1)) || 1;
  });
  function candidates(j) {
    const control = data.controls[j];
    if (!data.columns[j].at.length || row[j] === null) return [];
    if (control.kind !== "number") return control.levels.filter((level) => level !== row[j]).map((value) => ({ j, value, cost: 1 }));
    const steps = control.is_whole ? Math.min(60, control.max - control.min) : 60;
    const found = [];
    for (let k = 0; k <= steps; k++) {
      let value = control.min + (control.max - control.min) * k / (steps || 1);
      if (control.is_whole) value = Math.round(value);
      if (value !== row[j]) found.push({ j, value, cost: Math.abs(value - row[j]) / deviation[j] });
    }
    return found;
  }
  const changed = (changes) => { const other = [...row]; for (const { j, value } of changes) other[j] = value; return other; };
  function goal(said) {
    if (!data.classes) {
      const aim = Number(get("reach").value), up = aim >= said[0];
      return { met: (now) => up ? now[0] >= aim : now[0] <= aim, gain: (now) => up ? now[0] : -now[0] };
    }
    const wanted = get("wanted").value === "" ? null : Number(get("wanted").value), own = best(said);
    if (wanted === null) return { met: (now) => best(now) !== own, gain: (now) => -now[own] };
    return { met: (now) => best(now) === wanted, gain: (now) => now[wanted] };
  }
  function least(said) {
    const { met, gain } = goal(said);
    if (met(said)) return [];
    let found = null;
    const singles = data.controls.flatMap((_, j) => candidates(j));
    const cost = (changes) => changes.reduce((sum, change) => sum + change.cost, 0);
    const keep = (changes) => { if (!found || cost(changes) < cost(found)) found = changes; };
    const promising = singles.map((change) => {
      const now = answer(changed([change]));
      if (met(now)) keep([change]);
      return { change, gain: gain(now) - 0.02 * change.cost };
    }).sort((a, b) => b.gain - a.gain).slice(0, 40).map(({ change }) => change);
    for (const first of promising) for (const second of singles) {
      if (second.j === first.j || (found && first.cost + second.cost >= cost(found))) continue;
      if (met(answer(changed([first, second])))) keep([first, second]);
    }
    return found;
  }
  function drawChange(said) {
    const found = least(said), box = get("change");
    if (!found) { box.replaceChildren(make("p", "No change of one or two columns does it.")); return; }
    if (!found.length) { box.replaceChildren(make("p", "The answer is that already.")); return; }
    const list = make("ul", undefined, "changes");
    for (const { j, value } of found) {
      const line = make("li", data.controls[j].name + ": " + show(row[j]) + " → ");
      line.append(make("b", show(value)));
      list.append(line);
    }
    const now = answer(changed(found));
    const text = data.classes ? `Then: ${show(data.classes[best(now)])}, ${percent(now[best(now)])}.` : `Then: ${show(now[0])}.`;
    box.replaceChildren(list, make("p", text));
  }

  get("aim").hidden = false;
  if (data.classes) {
    get("reach").parentElement.remove();
    const any = make("option", "another answer"); any.value = ""; get("wanted").append(any);
    data.classes.forEach((name, k) => { const option = make("option", show(name)); option.value = k; get("wanted").append(option); });
  } else {
    get("wanted").parentElement.remove();
    const answers = data.rows.map((cells) => { try { return answer(cells)[0]; } catch { return NaN; } }).filter((value) => !isNaN(value)).sort((a, b) => a - b);
    get("reach").value = show(answers[Math.floor(0.75 * answers.length)] ?? 0);
  }
  for (const input of get("aim").querySelectorAll("select, input")) input.addEventListener("input", () => update());
  get("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  // The answer follows at once; what takes longer waits until the hand rests.
  let waiting = 0;
  function update() {
    try {
      const said = answer(row);
      get("error").textContent = "";
      draw(said);
      clearTimeout(waiting);
      waiting = setTimeout(() => { drawNear(encode(row)); drawChange(said); }, 120);
    } catch (error) { get("error").textContent = error.message; }
  }
  update();
})();
