// Before the first paint: the theme that somebody chose here; else the system's.
try {
  const chosen = localStorage.getItem("offpath.theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch { /* no storage: the system's */ }
document.documentElement.classList.add("scripted");
