"use strict";
(() => {
  const root = document.documentElement;
  const reasons = [...document.querySelectorAll(".why")];
  const picks = [...document.querySelectorAll(".pick")];

  function show(row, jump) {
    const wanted = document.getElementById("why-" + row);
    if (!wanted) return;
    for (const part of reasons) part.hidden = part !== wanted;
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
    if (jump) document.getElementById("reasons").scrollIntoView();
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
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  if (picks.length) show(picks[0].dataset.row, false);
})();
