"""The main job of `make demo`: see docs/demo.md."""
