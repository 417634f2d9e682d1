"""The search for the best mixture: starts, proposals, short runs and optima."""
