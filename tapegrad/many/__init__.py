"""Sums over data that are computed by chunks: on threads of this process, or by the workers of a cluster.

Imports: common.

`data`         what users have (arrays, mapped files, tables, Dask's collections) as chunks of rows, one at a time.
`chunkwise`    what is computed of a chunk, by recordings; the sum of the results, in an order that depends on nothing but their number.
`sums`         `sum_over`, `mean_over`: the sum as a function, and its derivatives as custom primitives.
`engines`      `distribute`: chunks and sums by executors, Dask and joblib; what workers are sent, and what they do.
"""
