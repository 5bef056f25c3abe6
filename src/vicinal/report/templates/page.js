(() => {
  const explanations = [...document.querySelectorAll(".why")];
  const picks = [...document.querySelectorAll(".pick")];

  function show(row, jump) {
    const wanted = document.getElementById("why-" + row);
    if (!wanted) return;
    for (const part of explanations) part.hidden = part !== wanted;
    for (const pick of picks) {
      const on = pick.dataset.row === row;
      pick.setAttribute("aria-pressed", on);
      if (on) pick.parentElement.scrollTo({
        top: pick.offsetTop - pick.parentElement.offsetTop - 80,
        left: pick.offsetLeft - pick.parentElement.offsetLeft - 40,
      });
    }
    for (const point of document.querySelectorAll(".pt.ringed")) {
      point.classList.toggle("on", point.dataset.row === row);
    }
    if (jump) document.getElementById("explanations").scrollIntoView();
  }

  document.addEventListener("click", (event) => {
    const source = event.target.closest("[data-row]");
    if (source) show(source.dataset.row, !source.classList.contains("pick"));
  });
  document.addEventListener("keydown", (event) => {
    const point = event.target.closest(".pt.ringed");
    if (point && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      show(point.dataset.row, true);
    }
  });
  if (picks.length) show(picks[0].dataset.row, false);

  const chooser = document.querySelector(".chooser");
  if (chooser) {
    const points = JSON.parse(chooser.dataset.points);
    const get = (id) => document.getElementById(id);
    const slide = get("threshold");
    const percent = (share) => (100 * share).toFixed(1) + " %";
    const cost = (point) => Math.max(0, Number(get("cost-positive").value)) * point.false_positive
      + Math.max(0, Number(get("cost-negative").value)) * point.false_negative;
    const cheapest = () => points.reduce((best, point, k) => cost(point) < cost(points[best]) ? k : best, 0);
    const nearest = (value) => points.reduce((near, point, k) => Math.abs(point.threshold - value) < Math.abs(points[near].threshold - value) ? k : near, 0);
    const update = () => {
      const point = points[nearest(Number(slide.value))];
      get("threshold-value").textContent = point.threshold.toFixed(3);
      get("threshold-scores").textContent = `Precision ${percent(point.precision)}, recall ${percent(point.recall)}: `
        + `${point.true_positive} true positives, ${point.false_negative} false negatives, ${point.false_positive} false positives; `
        + `cost ${Number(cost(point).toPrecision(6))}.`;
      const best = points[cheapest()];
      get("threshold-best").textContent = `Lowest cost on these rows: threshold ${best.threshold.toFixed(3)}, cost ${Number(cost(best).toPrecision(6))}.`;
    };
    slide.value = Number(chooser.dataset.start);
    for (const input of chooser.querySelectorAll("input")) input.addEventListener("input", update);
    get("threshold-take").addEventListener("click", () => { slide.value = points[cheapest()].threshold; update(); });
    chooser.hidden = false;
    update();
  }
})();
