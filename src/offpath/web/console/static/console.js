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
  const PATIENCE = 10_000; // of an answer that does not come: the next one is asked for
  let mark = "", wait = pause, toldAt = 0, seen = new Date();
  // nothing moves beneath somebody who reads a menu, types, has marked rows or selected a text
  const rests = () =>
    document.hidden || kept.get("still") === "yes" || $("dialog[open], .small-menu[open]") ||
    document.activeElement?.matches("input, select, textarea") || String(getSelection()) !== "" ||
    $("td.mark input:checked") || $("form.act") ||
    new URLSearchParams(location.search).has("after");

  async function look() {
    if (!live || rests()) return;
    try {
      const answer = await fetch(location.href, {
        headers: mark ? { "If-None-Match": mark } : {}, cache: "no-store",
        signal: AbortSignal.timeout(PATIENCE),
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
        count();
        tell();
        document.dispatchEvent(new Event("offpath:fresh"));
      }
      wait = pause;
      seen = new Date();
      $("#fresh").textContent = "";
    } catch {
      wait = Math.min(wait * 2, 30_000);
      $("#fresh").textContent = `last seen ${clocks.local(seen).slice(11)}`;
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
      one.title = told === clocks.local ? `${clocks.local(at)} ${zone}` : `${clocks.UTC(at)} UTC`;
      if (!one.closest("tr")) one.tabIndex = 0;
    }
    for (const one of document.querySelectorAll("[data-do=times]")) {
      one.textContent = `Times: ${told ? kept.get("times") : "ago"}`;
    }
  }
  times();

  // The exact time of what has the focus. A row tells all of its times at once: were each of them a
  // stop of the tabulator, a list of fifty rows would have a hundred more.
  const exact = document.createElement("div");
  exact.id = "exact";
  exact.setAttribute("role", "tooltip");
  exact.hidden = true;
  document.body.append(exact);
  function tellExact(target) {
    const row = target.closest("tbody tr");
    const found = row ? [...row.querySelectorAll("time[datetime]")]
      : target.matches("time[datetime]") ? [target] : [];
    exact.hidden = !found.length || !target.matches(":focus-visible");
    if (exact.hidden) return;
    exact.replaceChildren(...found.map((one) => {
      const line = document.createElement("div");
      const name = row && one.closest("td")?.dataset.name;
      line.textContent = name ? `${name}: ${one.title}` : one.title;
      return line;
    }));
    if (!row) target.setAttribute("aria-describedby", exact.id);
    const at = (row || target).getBoundingClientRect();
    const room = root.clientWidth - exact.offsetWidth - 8;
    exact.style.left = `${Math.max(8, Math.min(row ? at.right - exact.offsetWidth : at.left, room))}px`;
    const below = at.bottom + exact.offsetHeight + 4 < innerHeight;
    exact.style.top = `${scrollY + (below ? at.bottom + 2 : at.top - exact.offsetHeight - 2)}px`;
  }
  document.addEventListener("focusin", (event) => tellExact(event.target));
  document.addEventListener("focusout", () => { exact.hidden = true; });

  // -- switches ---------------------------------------------------------------------------------
  const still = () => kept.get("still") === "yes";
  function words() {
    for (const one of document.querySelectorAll("[data-do=still]")) {
      one.textContent = still() ? "‖ Not live" : "● Live";
      one.setAttribute("aria-pressed", String(!still()));
    }
    for (const one of document.querySelectorAll("[data-do=keys]")) {
      const off = kept.get("keys") === "off";
      if (one.closest("dialog")) one.textContent = off ? "Turn keys on" : "Turn keys off";
      else {
        one.textContent = off ? "Keys: off" : "Keys: on";
        one.setAttribute("aria-pressed", String(!off));
      }
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
    all(box) { for (const one of marks(box.closest("form"))) one.checked = box.checked; count(); },
    async copy(button) {
      if (!await copied(button.dataset.text)) return;
      $("#said").textContent = "Copied";
      button.classList.add("copied");
      setTimeout(() => button.classList.remove("copied"), 1500);
    },
  };
  // Over plain http, as from one machine of a network to another, a browser has no clipboard to write to.
  async function copied(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch { /* the old way */ }
    const field = document.createElement("textarea"), was = document.activeElement;
    field.value = text;
    field.className = "sr";
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    was?.focus();
    return done;
  }
  // -- marks: how many, said where the buttons are ------------------------------------------------
  const marks = (within = document) => [...within.querySelectorAll("td.mark input")];
  function count() {
    for (const one of document.querySelectorAll("[data-marked]")) {
      const marked = marks(one.closest("form")).filter((each) => each.checked);
      const jobs = marked.reduce((sum, each) => sum + Number(each.dataset.jobs || 1), 0);
      one.hidden = !marked.length;
      one.textContent = `${marked.length} marked${jobs > marked.length ? `, ${jobs.toLocaleString("en")} jobs` : ""}`;
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
  // the row that has the focus, where one was left otherwise
  const row = () => document.activeElement?.closest("#live tbody tr") || $("#live tbody tr.at");
  function move(by) {
    const rows = [...document.querySelectorAll("#live tbody tr")];
    if (!rows.length) return;
    const at = rows.indexOf(row());
    $("#live tbody tr.at")?.classList.remove("at");
    const next = rows[Math.max(0, Math.min(rows.length - 1, at + by))];
    next.classList.add("at");
    next.querySelector("a, button")?.focus();
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || kept.get("keys") === "off") return;
    const key = event.key;
    if (key === "Escape") exact.hidden = true;
    if (event.target.matches("input:not([type=checkbox]), select, textarea") || $("dialog[open]")) return;
    if (first === "g" && key in places) location.href = `${root.dataset.base}/${places[key]}`;
    else if (key === "/") { event.preventDefault(); $("input[type=search]")?.focus(); }
    else if (key === "j") move(1);
    else if (key === "k") move(-1);
    else if (key === "x") row()?.querySelector("td.mark input")?.click();
    else if (key === "c") { const one = row()?.querySelector("[data-do=copy]"); if (one) acts.copy(one); }
    else if (key === "?") acts.help();
    first = key;
  });
})();
