"""The model is compared with children; this process itself loads nothing native."""

import tests.without_loading  # noqa: F401
