"""Statistics that each process shows all others: counters, histograms and the board."""
