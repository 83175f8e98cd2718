"use strict";
// Draws each flame graph from all its data, to be zoomed and searched. What fails leaves the static one.
(() => {
  const ROW = 19, LEAST = 0.7;
  const data = JSON.parse(document.getElementById("flame-data").textContent);
  const search = document.getElementById("search");
  const graphs = [];
  let sought = "";

  const size = (bytes) => {
    const power = [30, 20, 10].find((p) => bytes >= 2 ** p) ?? 0;
    const value = bytes / 2 ** power;
    const digits = power === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
    return `${value.toFixed(digits)} ${{ 30: "GiB", 20: "MiB", 10: "KiB", 0: "B" }[power]}`;
  };
  const matches = ([frame]) => {
    const [name, whole, module] = data.frames[frame];
    return sought !== "" && `${name}\n${whole}\n${module}`.toLowerCase().includes(sought);
  };
  const matched = (node) => (matches(node) ? node[1] : node[3].reduce((sum, child) => sum + matched(child), 0));

  function draw(graph) {
    const { live, path, sheet } = graph;
    const top = path[path.length - 1];
    const width = graph.width = live.clientWidth;
    if (!width) return; // another view is shown
    const boxes = [];
    let deepest = 0;
    const box = (node, depth, x, wide, above) => {
      const [name, , , colour] = data.frames[node[0]];
      const one = document.createElement("div");
      one.className = `box ${colour}${wide < 20 ? " thin" : ""}${above ? " above" : ""}${matches(node) ? " hit" : ""}`;
      one.style.cssText = `left:${x.toFixed(1)}px;top:${depth * ROW}px;width:${Math.max(wide - 1, 0.5).toFixed(1)}px`;
      if (wide >= 20) one.textContent = name;
      one.node = node;
      boxes.push(one);
      deepest = Math.max(deepest, depth);
      return one;
    };
    const below = (node, depth, x, wide, chain) => {
      const here = [...chain, node];
      box(node, depth, x, wide, false).chain = here;
      let at = x;
      for (const child of node[3]) {
        const part = (wide * child[1]) / node[1];
        if (part >= LEAST) below(child, depth + 1, at, part, here);
        at += part;
      }
    };
    path.slice(0, -1).forEach((node, depth) => {
      box(node, depth, 0, width, true).chain = path.slice(0, depth + 1);
    });
    below(top, path.length - 1, 0, width, path.slice(0, -1));
    sheet.style.height = `${(deepest + 1) * ROW}px`;
    sheet.replaceChildren(...boxes);
    graph.figure.dataset.boxes = boxes.length; // what was really drawn, for whoever looks by a program
  }

  function tell(graph, node) {
    const [name, whole, module] = data.frames[node[0]];
    const share = (100 * node[1]) / graph.root[1];
    const objects = node[2].toLocaleString("en").replaceAll(",", "\u202f");
    graph.told.textContent = `${whole || name}${module ? ` · ${module}` : ""} — ${size(node[1])}, ${share.toFixed(1)} %, ${objects} objects`;
  }

  function seek(text) {
    sought = text.trim().toLowerCase();
    graphs.forEach(draw);
    const shown = graphs.find((graph) => graph.live.clientWidth);
    const part = shown && sought ? matched(shown.root) : 0;
    document.getElementById("found").textContent = sought ? `${size(part)}, ${shown ? ((100 * part) / shown.root[1]).toFixed(1) : 0} %` : "";
  }

  for (const figure of document.querySelectorAll("figure.flame")) {
    const live = figure.querySelector(".live");
    const root = data.views[figure.dataset.view];
    const sheet = live.appendChild(document.createElement("div"));
    sheet.className = "sheet";
    const graph = { figure, live, sheet, root, path: [root], told: figure.querySelector(".told") };
    const boxOf = (event) => event.target.closest(".box");
    live.addEventListener("click", (event) => {
      const box = boxOf(event);
      if (box) { graph.path = box.chain; draw(graph); }
    });
    live.addEventListener("mouseover", (event) => {
      const box = boxOf(event);
      if (box) tell(graph, box.node);
    });
    live.hidden = false;
    figure.querySelector(".static").hidden = true;
    figure.classList.add("drawn");
    new ResizeObserver(() => { if (live.clientWidth !== graph.width) draw(graph); }).observe(live);
    graphs.push(graph);
    draw(graph);
  }
  const again = () => seek(search.value);
  for (const choice of document.querySelectorAll(".where > input")) choice.addEventListener("change", again);
  search.addEventListener("input", again);
  document.querySelector(".seek").hidden = false;
  document.body.classList.add("drawn-page");
  document.addEventListener("click", (event) => {
    const name = event.target.closest("[data-find]")?.dataset.find;
    if (name === undefined) return;
    search.value = name;
    seek(name);
    document.getElementById("where").scrollIntoView();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    search.value = "";
    for (const graph of graphs) graph.path = [graph.root];
    seek("");
  });
})();
