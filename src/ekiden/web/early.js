// Runs before the first paint, so that the chosen look is there from the start.
(() => {
  try {
    const theme = localStorage.getItem("ekiden.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // Storage can be switched off; then the look follows the system.
  }
})();
