"use strict";
// Filters and notes of a report's page. What elements are called, and what filters mean: reports/html.py.
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const form = document.getElementById("filters");
  const chosen = new Map(); // filter -> set of values
  const search = document.getElementById("search");

  const values = (element, name) => (element.getAttribute(`data-${name}`) ?? "").split(" ");
  const has = (element, name, wanted) => values(element, name).some((value) => wanted.has(value));

  function matches(item, name, wanted) {
    if (item.hasAttribute(`data-${name}`) && has(item, name, wanted)) return true;
    return all(`[data-${name}]`, item).some((part) => !part.closest("[hidden]") && has(part, name, wanted));
  }

  // Names of filters that hide, as long as something is chosen in them.
  const hiding = () => all("[data-hides]", form).map((button) => button.dataset.filter)
    .filter((name, at, names) => names.indexOf(name) === at);
  const chosenIn = (name) => chosen.get(name) ?? new Set();

  function hide(hides) {
    const active = hides.filter((name) => chosenIn(name).size > 0);
    const unwanted = (element) => active.some(
      (name) => element.hasAttribute(`data-${name}`) && !has(element, name, chosenIn(name)));
    for (const table of all("table")) {
      const heads = [...(table.tHead?.rows[0]?.cells ?? [])].filter((head) => hides.some((name) => head.hasAttribute(`data-${name}`)));
      for (const head of heads) {
        const hidden = unwanted(head);
        if (hidden === head.hidden) continue;
        head.hidden = hidden;
        for (const row of table.tBodies[0].rows) row.cells[head.cellIndex].hidden = hidden;
      }
    }
    for (const item of all("[data-item]")) item.hidden = unwanted(item);
  }

  function apply() {
    const hides = hiding();
    const text = (search?.value ?? "").trim().toLowerCase();
    let shown = 0;
    hide(hides);
    const items = all("[data-item]:not([data-aside])");
    for (const item of items) {
      const found = !text || item.textContent.toLowerCase().includes(text);
      const fits = [...chosen].every(([name, wanted]) => hides.includes(name) || !wanted.size || matches(item, name, wanted));
      item.hidden ||= !(found && fits);
    }
    for (const group of all("[data-group]")) {
      group.hidden = all("[data-item]", group).every((item) => item.hidden) || noColumn(group, hides);
      if (!group.hidden) shown += all("[data-item]:not([hidden])", group).length;
    }
    const output = document.getElementById("shown");
    output.textContent = `${shown} of ${items.length} ${output.dataset.unit}`;
    for (const place of all("[data-chosen]")) {
      const count = chosenIn(place.dataset.chosen).size;
      place.textContent = count ? ` (${count} chosen)` : "";
    }
    remember();
  }

  // A table all of whose filtered columns are hidden has nothing to show.
  function noColumn(group, hides) {
    return hides.some((name) => {
      const heads = all(`th[data-${name}]`, group);
      return heads.length > 0 && heads.every((head) => head.hidden);
    });
  }

  // The choice stands in the address, so that a filtered page can be passed on.
  function remember() {
    const params = new URLSearchParams();
    for (const [name, wanted] of chosen) if (wanted.size) params.set(name, [...wanted].join(" "));
    if (search?.value) params.set("text", search.value);
    const hash = params.toString();
    if (!hash && !/[=]/.test(location.hash)) return; // the name of a place in the page stays
    try {
      history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
    } catch {
      // some browsers refuse this for files: the page works all the same
    }
  }

  function recall() {
    const params = new URLSearchParams(location.hash.slice(1));
    for (const button of all("[data-filter]", form)) {
      const wanted = (params.get(button.dataset.filter) ?? "").split(" ");
      if (wanted.includes(button.dataset.value)) press(button, true);
    }
    if (search && params.has("text")) search.value = params.get("text");
  }

  function press(button, on) {
    const { filter, value } = button.dataset;
    const wanted = chosen.get(filter) ?? new Set();
    if (on) wanted.add(value);
    else wanted.delete(value);
    chosen.set(filter, wanted);
    button.setAttribute("aria-pressed", String(on));
  }

  if (form) {
    form.hidden = false;
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button?.dataset.filter) press(button, button.getAttribute("aria-pressed") !== "true");
      else if (button?.id === "clear") {
        for (const one of all("[data-filter]", form)) press(one, false);
        if (search) search.value = "";
      } else return;
      apply();
    });
    search?.addEventListener("input", apply);
    recall();
    apply();
  }

  const note = document.getElementById("note");
  let opener = null;
  function close() {
    note.hidden = true;
    opener?.focus();
    opener = null;
  }
  for (const button of all("[data-note]")) button.removeAttribute("title"); // the panel says it
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-note]");
    if (!button) return;
    opener = button;
    document.getElementById("note-title").textContent = button.dataset.title;
    document.getElementById("note-text").textContent = button.dataset.note;
    note.hidden = false;
  });
  document.getElementById("note-close").addEventListener("click", close);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !note.hidden) close();
  });
})();
