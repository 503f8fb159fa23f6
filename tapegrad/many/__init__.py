"""Sums over data that are computed by chunks: on threads of this process, or by the workers of a cluster.

Imports: common, codegen, array, autograd, transforms.

`data`         what users have (arrays, mapped files, tables, Dask's collections) as chunks of rows, one at a time.
`chunkwise`    what is computed of a chunk, by recordings; the sum of the results, in an order that depends on nothing but their number.
`engines`      chunks computed by executors, Dask and joblib: what workers are sent, and what they do.
`sums`         `sum_over`, `mean_over`, `distribute`: the sum as a function, and its derivatives as custom primitives.
"""
