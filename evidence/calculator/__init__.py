"""A page that answers without a server: the compiled node in the browser, over tables.

`tables.py` says how long each step takes, on a grid of what the page lets choose; `page.py` puts
these tables, the node as WebAssembly and the scripts into one file. `model.js` there interpolates,
runs the node and makes intervals of its results, as `models/prediction` does.
"""
