"""Find, plan and open the vendor libraries. Standard library only; no torch, no printing.

The modules that every `import torch_fl` needs (catalog, places, plan, load, hook, and what they read files with) do
without `from __future__ import annotations`: with it, NamedTuple compiles the text of each field when the class is
made, which doubles what those classes cost.
"""
