// Before anything is painted: the colours that were chosen.
try {
  const theme = localStorage.getItem('cadet-theme');
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
} catch {
  // No storage: as the system has it.
}
