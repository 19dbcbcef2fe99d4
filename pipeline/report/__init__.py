"""The report of a run: one page that is read each morning."""
