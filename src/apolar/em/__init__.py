"""EM: rows in whitened coordinates, its steps, and runs from a start to an optimum."""
