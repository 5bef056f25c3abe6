/* Fitted models from their arrays. A row is a list of cells in the order of the columns. */
const vicinal = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const width = Math.max(...data.columns.map((column) => Math.max(-1, ...column.at))) + 1;
  const dot = (a, b) => { let sum = 0; for (let j = 0; j < a.length; j++) sum += a[j] * b[j]; return sum; };
  const scaled = (x, scaler) => x.map((value, j) => (value - scaler.mean[j]) / scaler.scale[j]);

  function encode(row) {
    const x = new Array(width).fill(0);
    data.columns.forEach((column, j) => {
      const cell = row[j];
      let block;
      if (cell === null || cell === undefined) {
        if (!column.missing) throw new Error(`${data.controls[j].name} needs a value`);
        block = column.missing;
      } else if (column.categories) {
        block = column.categories[cell];
        if (!block) throw new Error(`${data.controls[j].name}: ${cell} is not in the table`);
      } else block = [Number(cell), 0];
      column.at.forEach((at, k) => { x[at] = block[k]; });
    });
    return data.scalers.reduce(scaled, x);
  }

  function softmax(scores) {
    const most = Math.max(...scores);
    const powers = scores.map((score) => Math.exp(score - most));
    const total = powers.reduce((a, b) => a + b, 0);
    return powers.map((power) => power / total);
  }
  const sigmoid = (score) => 1 / (1 + Math.exp(-score));
  const logSigmoid = (score) => score > 0 ? -Math.log1p(Math.exp(-score)) : score - Math.log1p(Math.exp(score));

  function linear(model, x) {
    const scores = model.coef.map((coef, k) => dot(coef, x) + model.intercept[k]);
    if (model.link === "logit") { const p = sigmoid(scores[0]); return [1 - p, p]; }
    return model.link === "softmax" ? softmax(scores) : scores;
  }

  function partition(model, given) {
    const x = model.scaler ? scaled(given, model.scaler) : given;
    const parts = model.cascades.map((cascade) => {
      const gates = cascade.gates.map((gate) => gate.coef ? dot(gate.coef, x) + gate.intercept : gate.intercept);
      const scoresOf = (region) => {
        const scores = region.coef.map((coef, k) =>
          region.intercept[k] === null ? -Infinity : dot(coef, x) + region.intercept[k]);
        if (!data.classes) return scores;
        const most = Math.max(...scores);
        return softmax(scores.map((score) => (score - most) / region.temperature));
      };
      if (!cascade.soft) {
        const keeps = gates.findIndex((score) => !(score > 0));
        return scoresOf(cascade.regions[keeps < 0 ? cascade.regions.length - 1 : keeps]);
      }
      let passed = 0;
      const total = [];
      cascade.regions.forEach((region, k) => {
        const share = Math.exp(passed + (k < gates.length ? logSigmoid(-gates[k]) : 0));
        if (k < gates.length) passed += logSigmoid(gates[k]);
        scoresOf(region).forEach((value, c) => { total[c] = (total[c] || 0) + share * value; });
      });
      return total;
    });
    return parts[0].map((_, c) => parts.reduce((sum, part) => sum + part[c], 0) / parts.length);
  }

  function normalScore(value, [values, scores]) {
    if (value <= values[0]) return scores[0];
    if (value >= values[values.length - 1]) return scores[scores.length - 1];
    let low = 0, high = values.length - 1;
    while (high - low > 1) { const middle = (low + high) >> 1; if (values[middle] <= value) low = middle; else high = middle; }
    return scores[low] + (scores[high] - scores[low]) / (values[high] - values[low]) * (value - values[low]);
  }

  function anchored(model, x) {
    let position = model.located ? model.located.map((j) => x[j]) : x;
    if (model.knots) position = position.map((value, j) => normalScore(value, model.knots[j]));
    if (model.matrix) {
      if (model.mean) position = position.map((value, j) => value - model.mean[j]);
      position = Array.isArray(model.matrix[0])
        ? model.matrix[0].map((_, k) => position.reduce((sum, value, j) => sum + value * model.matrix[j][k], 0))
        : position.map((value, j) => value * model.matrix[j]);
    }
    const design = model.design ? model.design.map((j) => x[j]) : position;
    const near = model.centers.map((center, at) => {
      let square = 0;
      for (let j = 0; j < center.length; j++) square += (position[j] - center[j]) ** 2;
      return { at, distance: Math.sqrt(square) };
    }).sort((a, b) => a.distance - b.distance || a.at - b.at);
    const count = Math.min(model.n_blended, near.length);
    // The first anchor that is not used sets the bandwidth.
    const reach = near.length > model.n_blended ? near[count].distance
      : near[count - 1].distance * (1 + 1 / Math.max(1, model.n_blended));
    const nearestAnchors = near.slice(0, count);
    let weights = nearestAnchors.map(({ distance }) => reach > 0
      ? Math.max(0, 1 - (distance / reach) ** 3) ** 3 : Number(distance === 0));
    if (!weights.some((weight) => weight > 0)) weights = weights.map(() => 1);
    const total = weights.reduce((a, b) => a + b, 0);
    const scores = model.values[0].map((_, c) => nearestAnchors.reduce((sum, { at }, k) => {
      const slope = model.slopes[at][c];
      let value = model.values[at][c];
      for (let j = 0; j < slope.length; j++) value += slope[j] * (design[j] - model.origins[at][j]);
      return sum + weights[k] * value;
    }, 0) / total);
    if (model.link === "value") return scores;
    if (model.temperature !== null) return softmax(scores.map((score) => score / model.temperature));
    const positive = scores.map((score) => Math.max(0, model.link === "score" ? score : sigmoid(score)));
    const sum = positive.reduce((a, b) => a + b, 0);
    return positive.map((value) => value / sum);
  }

  /* Boosted trees; their inputs have single precision. */
  function trees(model, x) {
    const scores = model.outputs.map(({ start, parts }) => parts.reduce((sum, { left, right, feature, threshold, value }) => {
      let at = 0;
      while (left[at] >= 0) at = Math.fround(x[feature[at]]) <= threshold[at] ? left[at] : right[at];
      return sum + value[at];
    }, start));
    if (model.link === "value") return scores;
    return softmax(scores.length === 1 ? [0, scores[0]] : scores);
  }

  const kinds = { linear, partition, anchored, trees };
  /* Probabilities of the classes, or a list of one number. */
  const output = (row) => kinds[data.model.kind](data.model, encode(row));

  /* The rows of the table in the encoded columns of the model, standardized below. */
  const known = data.rows.map((cells, i) => { try { return { i, x: encode(cells) }; } catch { return null; } }).filter(Boolean);
  const mean = new Array(width).fill(0).map((_, j) => known.reduce((sum, { x }) => sum + x[j], 0) / known.length);
  const spread = mean.map((m, j) => Math.sqrt(known.reduce((sum, { x }) => sum + (x[j] - m) ** 2, 0) / known.length) || 1);
  function nearest(row) {
    const at = encode(row);
    return known.map(({ i, x }) => ({ i, distance: Math.sqrt(x.reduce((sum, value, j) => sum + ((value - at[j]) / spread[j]) ** 2, 0)) }))
      .sort((a, b) => a.distance - b.distance).slice(0, 8)
      .map(({ i, distance }) => ({ row: data.numbers[i], distance, truth: data.truth?.[i], output: output(data.rows[i]), cells: data.rows[i] }));
  }
  function predict(row) {
    const values = output(row);
    if (data.reach === null) return { output: values };
    if (!data.classes) return { output: values, interval: [values[0] - data.reach, values[0] + data.reach] };
    return { output: values, labels: data.classes.filter((_, k) => 1 - values[k] <= data.reach) };
  }

  // --- counterfactuals ---
  const deviation = data.controls.map((control, j) => {
    if (control.kind !== "number") return 1;
    const cells = data.rows.map((cells) => cells[j]).filter((cell) => cell !== null).map(Number);
    const middle = cells.reduce((a, b) => a + b, 0) / (cells.length || 1);
    return Math.sqrt(cells.reduce((sum, cell) => sum + (cell - middle) ** 2, 0) / (cells.length || 1)) || 1;
  });
  /* The other values that a column may take, with their distance. */
  function candidates(row, j, given) {
    const { name, kind, is_used, is_whole, categories, ...control } = data.controls[j];
    if (!is_used || row[j] === null || given.fixed.includes(name)) return [];
    const factor = given.costs[name] ?? 1;
    if (kind === "category") return (given.categories[name] ?? categories).filter((category) => category !== row[j]).map((value) => ({ j, value, cost: factor }));
    if (kind !== "number") return [];
    const [from, to] = given.ranges[name] ?? [null, null];
    let low = from ?? control.min, high = to ?? control.max;
    if (given.increase.includes(name)) low = Math.max(low, row[j]);
    if (given.decrease.includes(name)) high = Math.min(high, row[j]);
    if (is_whole) [low, high] = [Math.ceil(low), Math.floor(high)];
    const steps = is_whole ? Math.min(60, high - low) : 60;
    const values = new Set();
    for (let k = 0; k <= steps && low <= high; k++) {
      const value = low + (high - low) * k / (steps || 1);
      values.add(is_whole ? Math.round(value) : value);
    }
    values.delete(row[j]);
    return [...values].map((value) => ({ j, value, cost: factor * Math.abs(value - row[j]) / deviation[j] }));
  }
  /* The cheapest of all changes of one column, and of two of which one is among the most promising. */
  function counterfactual(row, given, reached, gain) {
    const changed = (changes) => { const other = [...row]; for (const { j, value } of changes) other[j] = value; return other; };
    const cost = (changes) => changes.reduce((sum, change) => sum + change.cost, 0);
    const singles = data.controls.flatMap((_, j) => candidates(row, j, given));
    const outputs = singles.map((change) => output(changed([change])));
    const found = singles.filter((_, k) => reached(outputs[k])).sort((a, b) => a.cost - b.cost)[0];
    const most = found ? found.cost : Infinity;
    const promising = singles.map((change, k) => ({ change, gain: gain(outputs[k]) - 0.02 * change.cost }))
      .sort((a, b) => b.gain - a.gain).slice(0, 40).map(({ change }) => change);
    const pair = promising.flatMap((first) => singles.filter((second) => second.j !== first.j).map((second) => [first, second]))
      .filter((pair) => cost(pair) < most).sort((a, b) => cost(a) - cost(b)).slice(0, 20000).find((pair) => reached(output(changed(pair))));
    return pair ? changed(pair) : found ? changed([found]) : null;
  }
  /* Several counterfactuals that change different columns. */
  async function explain(row, given, now) {
    const own = data.chosen(now), wanted = given.target === undefined ? -1 : data.classes?.indexOf(given.target);
    const [low, high] = data.classes ? [] : given.target;
    const reached = (next) => !data.classes ? (low === null || next[0] >= low) && (high === null || next[0] <= high)
      : wanted < 0 ? data.chosen(next) !== own : data.chosen(next) === wanted;
    const gain = (next) => !data.classes ? (high === null ? next[0] : -next[0]) : wanted < 0 ? -next[own] : next[wanted];
    if (reached(now)) return { message: "The prediction is already as wanted.", rows: [] };
    const rows = [], fixed = [...given.fixed];
    while (rows.length < given.n_counterfactuals) {
      const found = counterfactual(row, { ...given, fixed }, reached, gain);
      if (!found) break;
      rows.push(found);
      data.controls.forEach(({ name }, j) => { if (found[j] !== row[j]) fixed.push(name); });
    }
    return { message: "No counterfactual was found that changes one or two columns.", rows };
  }
  return {
    data, encode, output, explain, pause: 120, steps: 60,
    outputs: async (rows) => rows.map(output), predict: async (row) => predict(row), nearest: async (row) => nearest(row),
  };
})();
