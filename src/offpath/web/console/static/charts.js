// A cross-hair in all charts of a page: each tells its values of the same moment. Without it they tell the last.
(() => {
  "use strict";
  const sheets = () => [...document.querySelectorAll(".charts")];
  let at = -1;

  function place(sheet) {
    const times = sheet.dataset.times.split("\n");
    const here = at < 0 ? -1 : Math.min(at, times.length - 1);
    const told = sheet.parentElement.querySelector("[data-moment]");
    told.textContent = here < 0 ? "" : times[here];
    for (const svg of sheet.querySelectorAll(".lines")) {
      let hair = svg.querySelector(".hair");
      if (!hair) {
        hair = document.createElementNS("http://www.w3.org/2000/svg", "path");
        hair.setAttribute("class", "hair");
        hair.setAttribute("vector-effect", "non-scaling-stroke");
        svg.append(hair);
      }
      const { width, height } = svg.viewBox.baseVal;
      const x = (here + 0.5) * width / times.length;
      hair.setAttribute("d", here < 0 ? "" : `M${x} 0V${height}`);
    }
    for (const one of sheet.querySelectorAll("[data-told]")) {
      one.dataset.last ??= one.textContent;
      one.textContent = here < 0 ? one.dataset.last : one.dataset.told.split("\n")[here] ?? "–";
    }
  }
  const again = () => sheets().forEach(place);
  function show(next) {
    if (next === at) return;
    at = next;
    again();
  }

  document.addEventListener("pointermove", (event) => {
    const svg = event.target.closest?.(".charts .lines");
    if (!svg) { if (!document.activeElement?.matches(".charts")) show(-1); return; }
    const box = svg.getBoundingClientRect();
    const points = svg.closest(".charts").dataset.times.split("\n").length;
    show(Math.max(0, Math.min(points - 1, Math.floor(points * (event.clientX - box.left) / box.width))));
  });
  document.addEventListener("keydown", (event) => {
    const sheet = event.target.closest?.(".charts");
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!sheet || event.ctrlKey || event.metaKey || event.altKey) return;
    const points = sheet.dataset.times.split("\n").length;
    if (step) { event.preventDefault(); show(Math.max(0, Math.min(points - 1, (at < 0 ? points : at) + step))); }
    else if (event.key === "Escape") show(-1);
  });
  document.addEventListener("focusout", (event) => { if (event.target.matches?.(".charts")) show(-1); });
  document.addEventListener("offpath:fresh", again);
})();
