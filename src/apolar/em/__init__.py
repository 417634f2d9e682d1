"""EM: rows in a frame, one step, and the loop around it."""
