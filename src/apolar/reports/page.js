"use strict";
// Mark a cluster or a row in all pictures and tables of the page, by mouse or keyboard.
(() => {
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
  const bar = document.querySelector("#brushed");
  let cluster = "";
  let row = "";

  const wordsOf = number => all(`use[data-row="${number}"] title`)
    .flatMap(title => title.textContent.split("\n"))
    .find(line => line.startsWith(`row ${number}:`)) || `row ${number}`;

  const update = () => {
    document.body.classList.toggle("brushing", cluster !== "");
    for (const part of all("[data-kind], [data-of]")) {
      part.classList.toggle("chosen", (part.dataset.kind || part.dataset.of) === cluster);
    }
    for (const button of all("[aria-pressed]")) {
      button.setAttribute("aria-pressed", button.dataset.row ? button.dataset.row === row : button.dataset.brush === cluster);
    }
    for (const halo of all(".halo")) halo.remove();
    for (const use of row ? all(`.points:not([data-kind="ring"]) use[data-row="${row}"]`) : []) {
      const halo = document.createElementNS("http://www.w3.org/2000/svg", "circle");
      for (const [name, value] of [["class", "halo"], ["cx", use.getAttribute("x")], ["cy", use.getAttribute("y")], ["r", 8]]) {
        halo.setAttribute(name, value);
      }
      use.closest("svg > g > g").append(halo);
    }
    const parts = [cluster && cluster.replace("-", " "), row && wordsOf(row)].filter(Boolean);
    bar.hidden = !parts.length;
    bar.firstElementChild.textContent = parts.join("; ");
  };
  const chooseCluster = name => { cluster = cluster === name ? "" : name; update(); };
  const chooseRow = number => { row = row === number ? "" : number; update(); };
  const clear = () => { cluster = row = ""; update(); };

  const makeButton = (element, choose) => {
    element.tabIndex = 0;
    element.setAttribute("role", "button");
    element.setAttribute("aria-pressed", "false");
    element.addEventListener("click", choose);
    element.addEventListener("keydown", event => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(); }
    });
  };
  for (const element of all(".legend li, .card h3")) {
    const found = element.textContent.trim().toLowerCase().match(/^(cluster (\d+)|noise)/);
    if (found) {
      element.dataset.brush = found[2] ? `cluster-${found[2]}` : "noise";
      makeButton(element, () => chooseCluster(element.dataset.brush));
    }
  }
  for (const element of all(".row[data-row]")) makeButton(element, () => chooseRow(element.dataset.row));

  for (const picture of all(".picture")) {
    const uses = all(".points:not([data-kind='ring']) use[data-row]", picture);
    if (!uses.length) continue;
    const numbers = [...new Set(uses.map(use => use.dataset.row))].sort((a, b) => a - b);
    picture.addEventListener("click", event => {
      const use = event.target.closest("use[data-row]");
      if (use) chooseRow(use.dataset.row);
    });
    picture.addEventListener("keydown", event => {
      const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
      if (!step) return;
      event.preventDefault();
      const next = row === "" ? (step > 0 ? 0 : -1) : numbers.indexOf(row) + step;
      row = numbers.at(next % numbers.length);
      update();
    });
  }
  document.addEventListener("keydown", event => { if (event.key === "Escape") clear(); });
  bar.querySelector("button").addEventListener("click", clear);
  for (const hint of all(".with-script")) hint.hidden = false;
})();
