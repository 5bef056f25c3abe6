/* A model on a server. A row is a list of cells in the order of the columns. */
const vicinal = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const named = (row) => Object.fromEntries(data.controls.map(({ name }, j) => [name, row[j]]));
  async function post(path, rows, more, signal) {
    // Not relative: an address with a password in it cannot be fetched from.
    const reply = await fetch(location.origin + location.pathname + path, {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ rows: rows.map(named), ...more }), signal,
    });
    const content = await reply.json();
    if (!reply.ok) throw new Error(content.error);
    return content;
  }
  const outputs = (found) => found.probabilities ?? found.predictions.map((value) => data.classes ? data.classes.map((label) => Number(label === value)) : [value]);
  const options = [data.has_limits && "coverage=" + data.coverage, data.has_typicality && "typicality=true"].filter(Boolean).join("&");
  return {
    data, pause: 400, steps: 24,
    outputs: async (rows) => outputs(await post("predict", rows)),
    predict: async (row) => {
      const found = await post("predict?" + options, [row]);
      return { output: outputs(found)[0], interval: found.intervals?.[0], labels: found.sets?.[0], typicality: found.typicality?.[0] };
    },
    nearest: async (row) => {
      const { neighbors } = await post("neighbors", [row]);
      const found = neighbors.length ? outputs({ probabilities: neighbors[0].probabilities && neighbors.map((near) => near.probabilities), predictions: neighbors.map((near) => near.prediction) }) : [];
      return neighbors.map((near, k) => ({ ...near, output: found[k], cells: data.controls.map(({ name }) => near.values[name]) }));
    },
    /* The explanation, and counterfactuals as whole rows. */
    explain: async (row, counterfactual, output, signal) => {
      const { html, sections } = await post("explain", [row], { counterfactual }, signal);
      const { values, summary } = sections.counterfactual ?? { values: { found: false }, summary: "" };
      const rows = values.found ? [values.counterfactual, ...values.alternatives] : [];
      return { html, message: summary, rows: rows.map((cells) => data.controls.map(({ name }) => cells[name])) };
    },
  };
})();
