"""Rows in the partitions of an array or a dataframe of Dask."""
