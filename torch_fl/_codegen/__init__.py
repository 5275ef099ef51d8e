"""Writes what is derived from the operator table: the routes in configs/ and the tables in docs/operator-support.md.

`python -m torch_fl._codegen` rewrites them, `--check` says whether the committed files are what it would write. It
needs torchgen, which comes with torch, and PyYAML; it loads neither torch nor the native part of torch_fl.
"""
