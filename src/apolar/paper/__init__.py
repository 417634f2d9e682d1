"""The tables and figures of the paper, made again, with the values that it prints."""
