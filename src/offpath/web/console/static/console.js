// What pages can do beyond links and forms: they stay fresh, and obey keys. All of it may be absent.
(() => {
  "use strict";
  const root = document.documentElement;
  const $ = (selector) => document.querySelector(selector);
  const kept = {
    get: (name) => { try { return localStorage.getItem(`offpath.${name}`); } catch { return null; } },
    set: (name, value) => { try { localStorage.setItem(`offpath.${name}`, value); } catch { /* none */ } },
  };

  // -- staying fresh: asked again, and changed in place, so that focus and places stay ------------
  const live = $("#live");
  const pause = Number(root.dataset.refresh || 2) * 1000;
  let mark = "", wait = pause, toldAt = 0, seen = new Date();
  const rests = () =>
    document.hidden || kept.get("still") === "yes" || $("dialog[open]") ||
    document.activeElement?.matches("input, select, textarea") || String(getSelection()) !== "" ||
    $("td.mark input:checked") || $("form.act") ||
    new URLSearchParams(location.search).has("after");

  async function look() {
    if (!live || rests()) return;
    try {
      const answer = await fetch(location.href, {
        headers: mark ? { "If-None-Match": mark } : {}, cache: "no-store",
      });
      if (answer.redirected) { location.reload(); return; }
      if (answer.status !== 304) {
        if (!answer.ok) throw new Error(String(answer.status));
        mark = answer.headers.get("ETag") || "";
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = page.querySelector("#live");
        if (!fresh) throw new Error("another page");
        for (const list of fresh.querySelectorAll("tbody[data-list]")) offer(list);
        await htmx.swap({ text: fresh.outerHTML, target: live, select: "#live", swap: "outerMorph" });
        times();
        tell();
      }
      wait = pause;
      seen = new Date();
      $("#fresh").textContent = "";
    } catch {
      wait = Math.min(wait * 2, 30_000);
      $("#fresh").textContent = `last seen ${seen.toLocaleTimeString()}`;
    }
  }
  // New rows above are offered, not pushed in: what one reads must not move away beneath.
  function offer(list) {
    const shown = [...document.querySelectorAll(`#live tbody[data-list="${list.dataset.list}"] > tr`)];
    const known = new Set(shown.map((row) => row.id));
    const rows = [...list.rows];
    const at = rows.findIndex((row) => known.has(row.id));
    const above = at < 0 ? rows.length : at;
    if (!shown.length || !above) return;
    for (const row of rows.slice(0, above)) row.remove();
    const kept = new Set(rows.slice(above).map((row) => row.id));
    if (at < 0) list.append(...shown.map((row) => document.importNode(row, true)));
    // of the rows that new ones have pushed off the page, as many as there are new ones stay
    else list.append(...shown.slice(shown.findIndex((row) => row.id === rows.at(-1).id) + 1)
      .filter((row) => !kept.has(row.id)).slice(0, above).map((row) => document.importNode(row, true)));
    const button = document.createElement("button");
    button.type = "button";
    button.className = "offer";
    button.dataset.do = "show";
    button.textContent = `${above}${at < 0 ? " or more" : ""} new`;
    list.closest(".scroll").before(button);
  }
  function tell() { // one sentence, at most each ten seconds
    const verdict = $("[data-verdict]")?.dataset.verdict;
    if (!verdict || verdict === root.dataset.told || Date.now() - toldAt < 10_000) return;
    if (root.dataset.told) $("#said").textContent = verdict;
    root.dataset.told = verdict;
    toldAt = Date.now();
  }
  async function again() {
    await look();
    setTimeout(again, wait * (0.9 + Math.random() * 0.2));
  }
  if (live) { tell(); setTimeout(again, wait); }

  // -- times: how long ago, or when, in UTC or as here ---------------------------------------------
  const pad = (number) => String(number).padStart(2, "0");
  const clocks = {
    UTC: (at) => at.toISOString().slice(0, 19).replace("T", " "),
    local: (at) => `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ` +
      `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`,
  };
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  function times() {
    const told = clocks[kept.get("times")];
    for (const one of document.querySelectorAll("time[datetime]")) {
      one.dataset.ago ??= one.textContent;
      const at = new Date(one.dateTime);
      one.textContent = told ? told(at) : one.dataset.ago;
      one.title = told === clocks.local ? `${clocks.local(at)} ${zone}` : one.dateTime;
    }
    for (const one of document.querySelectorAll("[data-do=times]")) {
      one.textContent = `Times: ${told ? kept.get("times") : "ago"}`;
    }
  }
  times();

  // -- switches ---------------------------------------------------------------------------------
  const still = () => kept.get("still") === "yes";
  function words() {
    for (const one of document.querySelectorAll("[data-do=still]")) {
      one.textContent = still() ? "‖ Not live" : "● Live";
      one.setAttribute("aria-pressed", String(!still()));
    }
    for (const one of document.querySelectorAll("[data-do=keys]")) {
      one.textContent = kept.get("keys") === "off" ? "Turn keys on" : "Turn keys off";
    }
  }
  words();
  const acts = {
    theme() {
      const dark = root.dataset.theme
        ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      kept.set("theme", root.dataset.theme);
    },
    times() {
      const order = ["ago", "UTC", "local"];
      kept.set("times", order[(order.indexOf(kept.get("times") || "ago") + 1) % order.length]);
      times();
    },
    async show() {
      for (const one of document.querySelectorAll("#live tbody[data-list] > tr")) one.remove();
      mark = "";
      await look();
      $("#live tbody a")?.focus();
    },
    still() { kept.set("still", still() ? "no" : "yes"); words(); },
    help() { $("#keys").showModal(); },
    keys() { kept.set("keys", kept.get("keys") === "off" ? "on" : "off"); words(); },
    all(box) { for (const one of marks()) one.checked = box.checked; count(); },
    async copy(button) {
      const text = button.dataset.text;
      try { await navigator.clipboard.writeText(text); } catch { return; }
      const was = button.textContent;
      button.textContent = "copied";
      setTimeout(() => { button.textContent = was; }, 1500);
    },
  };
  // -- marks: how many, said where the buttons are ------------------------------------------------
  const marks = () => [...document.querySelectorAll("td.mark input")];
  function count() {
    const marked = marks().filter((one) => one.checked).length;
    for (const one of document.querySelectorAll("[data-marked]")) {
      one.hidden = !marked;
      one.textContent = `${marked} marked`;
    }
  }
  document.addEventListener("change", (event) => { if (event.target.matches("td.mark input")) count(); });
  count();
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-do]");
    if (button) acts[button.dataset.do]?.(button);
  });
  const entry = $("form[data-submit]");
  if (entry) entry.requestSubmit();

  // -- keys: never with a modifier, never in a field ------------------------------------------------
  let first = "";
  const places = { o: "", j: "jobs", d: "dead", q: "queues", s: "schedules", l: "limits", w: "workers", h: "health", t: "tasks", p: "groups", c: "config", v: "log", m: "messages", e: "endpoints", r: "routers", a: "actions" };
  function move(by) {
    const rows = [...document.querySelectorAll("#live tbody tr")];
    if (!rows.length) return;
    const at = rows.findIndex((row) => row.contains(document.activeElement) || row.classList.contains("at"));
    rows[at]?.classList.remove("at");
    const next = rows[Math.max(0, Math.min(rows.length - 1, at + by))];
    next.classList.add("at");
    next.querySelector("a, button")?.focus();
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || kept.get("keys") === "off") return;
    if (event.target.matches("input, select, textarea") || $("dialog[open]")) return;
    const key = event.key;
    if (first === "g" && key in places) location.href = `${root.dataset.base}/${places[key]}`;
    else if (key === "/") { event.preventDefault(); $("input[type=search]")?.focus(); }
    else if (key === "j") move(1);
    else if (key === "k") move(-1);
    else if (key === "x") $("#live tbody tr.at td.mark input")?.click();
    else if (key === "?") acts.help();
    first = key;
  });
})();
