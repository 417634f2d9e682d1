"""What everything else stands on: arrays and their libraries, checks, files, threads."""
